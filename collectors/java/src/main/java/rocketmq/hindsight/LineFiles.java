package rocketmq.hindsight;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongFunction;
import java.util.function.Supplier;

/**
 * Lines in, files out, by a thread of its own: {@code sends-*.jsonl.part} or {@code consumes-*}, renamed when full, old, after a third of
 * that age without a line, or at the end. Lines
 * that find the queue full or the disk unwilling are lost; the next line on disk says how many. What a killed process
 * left behind is finished by the next one, up to its last whole line.
 */
final class LineFiles {
    private static final Set<Path> OPEN = ConcurrentHashMap.newKeySet(); // closing a second channel would end the lock
    final AtomicLong dropped = new AtomicLong(); // lines
    private final String prefix;
    private final Path folder;
    private final long mostBytes, longestMs;
    private final BlockingQueue<String> waiting;
    private final Thread thread = new Thread(this::run, "hindsight-recorder");
    private volatile boolean isClosed;
    volatile LongFunction<String> loss; // a line that says how many were lost
    volatile String start; // the line that comes first; without it, nothing is written
    volatile Supplier<String> sign = () -> null; // asked by the thread all the time for a line of its own
    volatile Supplier<String> last = () -> null; // the line that comes last
    private FileChannel file;
    private Path part;
    private long size, lines, openedAt, writtenAt, told, toldBefore; // told: losses, as far as the disk knows of them
    private boolean isStartTold;

    LineFiles(String prefix, Path folder, long mostBytes, long longestMs, int waitingLines) {
        this.prefix = prefix;
        this.folder = folder.toAbsolutePath();
        this.mostBytes = mostBytes;
        this.longestMs = longestMs;
        this.waiting = new ArrayBlockingQueue<>(waitingLines);
        thread.setDaemon(true);
        thread.start();
        Runtime.getRuntime().addShutdownHook(new Thread(this::close, "hindsight-recorder-end"));
    }

    void write(String line) {
        if (isClosed || !waiting.offer(line)) dropped.incrementAndGet();
    }

    void close() {
        String line = isClosed ? null : last.get();
        if (line != null) write(line);
        isClosed = true;
        try {
            thread.join(10_000);
        } catch (InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() {
        finishLeftBehind();
        List<String> batch = new ArrayList<>();
        for (boolean isLast = false; !isLast; batch.clear()) {
            try {
                String own = sign.get();
                String first = waiting.poll(isClosed ? 0 : 200, TimeUnit.MILLISECONDS);
                isLast = first == null && isClosed;
                if (first != null) batch.add(first);
                waiting.drainTo(batch, 1_024);
                if (own != null) batch.add(own);
                if (!store(batch) && !isClosed) Thread.sleep(1_000);
            } catch (InterruptedException nobodyDoes) {
                isClosed = true;
            }
        }
        finish();
    }

    /** False: the disk does not take these lines, and they are lost. */
    private boolean store(List<String> batch) {
        try {
            if (file != null && !Files.exists(part)) finish();
            if (start != null && (!batch.isEmpty() || dropped.get() > told)) append(batch);
            if (file != null && (size >= mostBytes || isPast(openedAt, longestMs) || isPast(writtenAt, longestMs / 3))) finish();
            return true;
        } catch (IOException | RuntimeException unwilling) {
            dropped.addAndGet(batch.size());
            finish(); // a file that cannot be written to may never be again
            return false;
        }
    }

    private static boolean isPast(long since, long ms) { return System.nanoTime() - since >= ms * 1_000_000; }

    private void append(List<String> batch) throws IOException {
        if (file == null) open();
        long lost = dropped.get();
        StringBuilder text = new StringBuilder(isStartTold ? "" : start + "\n");
        if (lost > told) text.append(loss.apply(lost - told)).append('\n');
        for (String line : batch) text.append(line).append('\n');
        try {
            ByteBuffer bytes = ByteBuffer.wrap(text.toString().getBytes(StandardCharsets.UTF_8));
            while (bytes.hasRemaining()) file.write(bytes);
        } catch (IOException unwilling) {
            file.truncate(size); // no torn line
            throw unwilling;
        }
        size = file.position();
        writtenAt = System.nanoTime();
        lines += batch.size();
        told = lost;
        isStartTold = true;
    }

    private void open() throws IOException {
        Files.createDirectories(folder);
        part = folder.resolve(prefix + System.currentTimeMillis() + "-" + UUID.randomUUID() + ".jsonl.part");
        OPEN.add(part);
        openedAt = writtenAt = System.nanoTime();
        size = lines = 0;
        toldBefore = told;
        file = FileChannel.open(part, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        file.tryLock(); // tells a file in use from one left behind
    }

    /** Gives the file its name; where it is gone, all that it held is lost. */
    private void finish() {
        if (part == null) return;
        try (FileChannel closing = file) {
            if (size > 0) closing.force(true);
            if (size > 0) rename(part);
            else Files.deleteIfExists(part);
        } catch (IOException gone) {
            dropped.addAndGet(lines);
            told = toldBefore;
            isStartTold = false;
        }
        OPEN.remove(part);
        part = null;
        file = null;
    }

    private void finishLeftBehind() {
        try (DirectoryStream<Path> left = Files.newDirectoryStream(folder, prefix + "*.jsonl.part")) {
            for (Path one : left) if (!OPEN.contains(one)) finishLeftBehind(one);
        } catch (IOException | RuntimeException notThere) { } // the next process that starts here tries again
    }

    private static void finishLeftBehind(Path left) throws IOException {
        try (FileChannel file = FileChannel.open(left, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            if (file.tryLock() == null) return; // another process writes it
            long end = file.size();
            for (ByteBuffer last = ByteBuffer.allocate(1); end > 0; end--, last.clear())
                if (file.read(last, end - 1) == 1 && last.get(0) == '\n') break;
            file.truncate(end);
            if (end > 0) rename(left);
            else Files.delete(left);
        }
    }

    private static void rename(Path part) throws IOException {
        Files.move(part, part.resolveSibling(part.getFileName().toString().replace(".part", "")));
    }
}
