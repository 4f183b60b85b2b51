-- What the DuckDB of an asker is told first. Its settings: time, nulls and progress as Spark has them, no extension.
SET TimeZone = 'UTC';
SET default_null_order = 'NULLS_FIRST_ON_ASC_LAST_ON_DESC';  -- as Spark's
SET enable_progress_bar = false;  -- to stdout, where rows belong, unless a script's file runs
SET autoinstall_known_extensions = false;
SET autoload_known_extensions = false;

-- Spark's names for what DuckDB calls otherwise, or means otherwise: its own max_by passes over nulls.
CREATE MACRO array_join(items, between) AS array_to_string(items, between);
CREATE MACRO collect_list(item) AS COALESCE(list(item) FILTER (WHERE item IS NOT NULL), []);
CREATE MACRO collect_set(item) AS COALESCE(list(DISTINCT item) FILTER (WHERE item IS NOT NULL), []);
CREATE MACRO count_if(condition) AS COUNT(*) FILTER (WHERE condition);
CREATE MACRO explode(items) AS unnest(items);
CREATE MACRO max_by(item, place) AS arg_max_null(item, place);
CREATE MACRO min_by(item, place) AS arg_min_null(item, place);
CREATE MACRO sequence(first, last) AS generate_series(first, last);
CREATE MACRO size(items) AS len(items);
CREATE MACRO slice(items, first, many) AS items[first : first + many - 1];
CREATE MACRO try_element_at(items, place) AS list_extract(items, place);
CREATE MACRO unix_millis(instant) AS epoch_us(instant) // 1000;
