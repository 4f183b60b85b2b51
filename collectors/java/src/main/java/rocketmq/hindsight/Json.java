package rocketmq.hindsight;

import java.util.Arrays;

/** One JSON object, field by field; null is left out. */
final class Json {
    private final StringBuilder out = new StringBuilder(512);

    Json add(String name, Object value) {
        if (value == null) return this;
        out.append(out.length() == 0 ? "{\"" : ",\"").append(name).append("\":");
        String text = value instanceof long[] ? Arrays.toString((long[]) value) : value.toString();
        if (value instanceof String) out.append('"');
        for (char c : text.toCharArray())
            if (c < ' ') out.append(String.format("\\u%04x", (int) c));
            else out.append(c == '"' || c == '\\' ? "\\" : "").append(c);
        if (value instanceof String) out.append('"');
        return this;
    }

    String end() { return out.append('}').toString(); }
}
