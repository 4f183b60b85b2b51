"""Run by the schedulers' own environment: what Airflow says of the DAGs in a folder, as the last line, in JSON."""

from __future__ import annotations

import json
import sys

from airflow.dag_processing.dagbag import DagBag

bag = DagBag(sys.argv[1])
dags = {
    name: {
        "next_tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
    }
    for name, dag in bag.dags.items()
}
print("\n" + json.dumps({"errors": bag.import_errors, "dags": dags}))
