/** The time of day as the client reads it: {@code ByClock} puts this in the place of System.currentTimeMillis. */
public final class Clock {
    public static long now;

    public static long millis() { return now; }
}
