package rocketmq.hindsight;

import static org.junit.Assert.*;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.impl.CommunicationMode;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;
import org.junit.*;
import org.junit.rules.TemporaryFolder;

/** The hook called as the client calls it, without a broker. */
public class SendRecorderTest {
    @Rule public final TemporaryFolder temporary = new TemporaryFolder();
    private final DefaultMQProducer producer = new DefaultMQProducer("pg \"quoted\"");
    private Path folder;
    private SendRecorder recorder;

    @Before public void attach() {
        folder = temporary.getRoot().toPath().resolve("not/there yet");
        recorder = attached(64L << 20, 300_000, 8_192);
    }

    @After public void close() {
        recorder.close();
    }

    private SendRecorder attached(long bytes, long millis, int waiting) {
        return SendRecorder.attach(producer, folder, Collections.singleton("Pinned"), bytes, millis, waiting);
    }

    private SendMessageContext begun(CommunicationMode mode, String msgId, String broker) {
        SendMessageContext context = new SendMessageContext();
        Message message = new Message("T", new byte[0]);
        message.putUserProperty("x", "y");
        MessageAccessor.putProperty(message, "UNIQ_KEY", msgId);
        context.setMessage(message);
        context.setMq(new MessageQueue("T", broker, 3));
        context.setBrokerAddr("10.0.0.1:10911");
        context.setCommunicationMode(mode);
        recorder.sendMessageBefore(context);
        return context;
    }

    private static SendResult stored(SendStatus status, String broker) {
        SendResult result = new SendResult();
        result.setSendStatus(status);
        result.setMessageQueue(new MessageQueue("T", broker, 1));
        return result;
    }

    private void send(String msgId, String broker, SendStatus status) {
        SendMessageContext context = begun(CommunicationMode.SYNC, msgId, broker);
        if (status == null) context.setException(new IllegalStateException("line\nbreak \"and\" \\"));
        else context.setSendResult(stored(status, broker));
        recorder.sendMessageAfter(context);
    }

    private List<String> files() throws IOException {
        if (!Files.isDirectory(folder)) return Collections.emptyList();
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(p -> p.getFileName().toString()).filter(n -> n.endsWith(".jsonl")).sorted().collect(Collectors.toList());
        }
    }

    private List<String> lines() throws IOException {
        List<String> lines = new ArrayList<>();
        for (String name : files()) lines.addAll(Files.readAllLines(folder.resolve(name), StandardCharsets.UTF_8));
        return lines;
    }

    private List<String> attempts() throws IOException {
        recorder.close();
        return lines().stream().filter(l -> l.contains("\"attempt\"")).collect(Collectors.toList());
    }

    /** A folder that cannot be made: the thread waits between two tries. */
    private void attachToNoFolder() throws IOException {
        Files.createDirectories(folder.getParent());
        Files.createFile(folder);
        recorder.close();
        recorder = attached(64L << 20, 300_000, 4);
    }

    private void deleteFolder() throws IOException {
        try (Stream<Path> all = Files.list(folder)) { for (Path one : all.collect(Collectors.toList())) Files.delete(one); }
        Files.delete(folder);
    }

    private static String field(String line, String name) {
        java.util.regex.Matcher found = java.util.regex.Pattern.compile("\"" + name + "\":\"?([^,\"}]*)").matcher(line);
        return found.find() ? found.group(1) : null;
    }

    private static List<String> each(List<String> lines, String name) {
        return lines.stream().map(l -> field(l, name)).collect(Collectors.toList());
    }

    @Test public void retriesAreCountedAndNameTheBrokerBefore() throws IOException {
        send("A", "a", null);
        send("A", "b", null);
        send("A", "c", SendStatus.SEND_OK);
        List<String> lines = attempts();
        assertEquals(Arrays.asList("0", "1", "2"), each(lines, "times"));
        assertEquals(Arrays.asList(null, "a", "b"), each(lines, "lastBrokerName"));
        assertEquals(Arrays.asList(null, null, "SEND_OK"), each(lines, "status"));
        assertTrue(lines.get(0).contains("\"error\":\"line\\u000abreak \\\"and\\\" \\\\\""));
    }

    @Test public void aMessageSentAnewIsNoRetry() throws IOException {
        send("A", "a", SendStatus.SEND_OK);
        send("A", "b", null);
        send("A", "c", null);
        send("A", "d", null);
        send("A", "e", SendStatus.FLUSH_DISK_TIMEOUT); // three attempts are one send
        send("A", "f", SendStatus.SEND_OK); // what is stored is not retried, unless the producer says so
        assertEquals(Arrays.asList("0", "0", "1", "2", "0", "0"), each(attempts(), "times"));
    }

    @Test public void anotherMessageIsNoRetryThoughTheOneBeforeFailed() throws IOException {
        send("A", "a", null);
        send("B", "b", SendStatus.SEND_OK);
        assertEquals(Arrays.asList("0", "0"), each(attempts(), "times"));
    }

    @Test public void aStatusThatIsRetriedCountsAsSuch() throws IOException {
        producer.setRetryAnotherBrokerWhenNotStoreOK(true);
        send("A", "a", SendStatus.FLUSH_DISK_TIMEOUT);
        send("A", "b", SendStatus.SEND_OK);
        assertEquals(Arrays.asList("0", "1"), each(attempts(), "times"));
    }

    private void callBack(SendMessageContext context, Runnable set) throws InterruptedException {
        Thread callback = new Thread(() -> { set.run(); recorder.sendMessageAfter(context); }, "callback");
        callback.start();
        callback.join();
    }

    @Test public void anAsyncAttemptIsTwoLinesInEitherOrder() throws Exception {
        SendMessageContext first = begun(CommunicationMode.ASYNC, "A", "a"), other = begun(CommunicationMode.ASYNC, "B", "a");
        first.getMq().setBrokerName("changed by another thread's choice");
        first.getMq().setQueueId(99);
        recorder.sendMessageAfter(first);
        callBack(first, () -> first.setSendResult(stored(SendStatus.SEND_OK, "b")));
        callBack(other, () -> other.setException(new IllegalStateException("x")));
        recorder.sendMessageAfter(other); // finds the exception that the callback was told
        List<String> lines = attempts();
        assertEquals(Arrays.asList("A", "A", "B", "B"), each(lines, "msgId"));
        assertEquals(Arrays.asList(null, "SEND_OK", null, null), each(lines, "status"));
        assertEquals(Arrays.asList(null, null, "java.lang.IllegalStateException", null), each(lines, "exception"));
        assertEquals(Arrays.asList(null, "b", null, null), each(lines, "answeredBy"));
        assertEquals(Arrays.asList("a", "a", "a", "a"), each(lines, "broker"));
        assertEquals(Arrays.asList("3", "3", "3", "3"), each(lines, "queueId"));
        assertEquals(1, each(lines, "thread").stream().distinct().count());
    }

    @Test public void anAsyncRequestThatCannotBeHandedOverFailsOnTheSendingThread() throws IOException {
        SendMessageContext context = begun(CommunicationMode.ASYNC, "A", "a");
        context.setException(new IllegalStateException("x"));
        recorder.sendMessageAfter(context);
        assertEquals(Collections.singletonList("java.lang.IllegalStateException"), each(attempts(), "exception"));
    }

    @Test public void anAnswersOffsetSaysWhoseItIs() throws IOException {
        for (String[] property : new String[][] {{"x", "y"}, {"TRAN_MSG", "true"}, {"DELAY", "3"}, {"TIMER_DELAY_SEC", "9"}}) {
            SendMessageContext context = begun(CommunicationMode.SYNC, "A" + property[0], "a");
            MessageAccessor.putProperty(context.getMessage(), property[0], property[1]);
            context.setSendResult(stored(SendStatus.SEND_OK, "a"));
            context.getSendResult().setQueueOffset(7);
            recorder.sendMessageAfter(context);
        }
        List<String> lines = attempts();
        assertEquals(Arrays.asList("topic", "half", "delay", "timer"), each(lines, "queueOffsetOf"));
        assertEquals(Arrays.asList("7", "7", "7", "7"), each(lines, "queueOffset"));
    }

    @Test public void theStartComesFirstAndOnce() throws IOException {
        for (int i = 0; i < 5; i++) send("A" + i, "a", SendStatus.SEND_OK);
        recorder.close();
        List<String> lines = lines();
        assertEquals(6, lines.size());
        assertEquals("start", field(lines.get(0), "type"));
        assertTrue(Long.parseLong(field(lines.get(0), "ts")) <= Long.parseLong(field(lines.get(1), "beginMs")));
        assertTrue(lines.get(0).contains("\"group\":\"pg \\\"quoted\\\"\""));
        assertTrue(lines.get(0).contains("\"latencyMax\":[50, 100, "));
    }

    @Test public void linesThatFindTheQueueFullAreCountedOnDisk() throws Exception {
        attachToNoFolder();
        long begun = System.nanoTime();
        for (int i = 0; i < 10_000; i++) send("A" + i, "a", SendStatus.SEND_OK);
        assertTrue("sends waited", System.nanoTime() - begun < 5_000_000_000L);
        Files.delete(folder);
        Thread.sleep(1_500);
        send("Z", "a", SendStatus.SEND_OK);
        recorder.close();
        List<String> lines = lines();
        assertEquals("start", field(lines.get(0), "type"));
        long told = lines.stream().filter(l -> l.contains("\"dropped\"")).mapToLong(l -> Long.parseLong(field(l, "lines"))).sum();
        long written = lines.stream().filter(l -> l.contains("\"attempt\"")).count();
        assertTrue(written >= 1 && written < 20);
        assertEquals(10_001, told + written);
        assertEquals(told, recorder.dropped());
    }

    @Test public void aFolderThatIsDeletedIsMadeAgainAndWhatItHeldIsCounted() throws Exception {
        for (int i = 0; i < 3; i++) send("A" + i, "a", SendStatus.SEND_OK);
        Thread.sleep(500);
        deleteFolder();
        send("Z", "a", SendStatus.SEND_OK);
        recorder.close();
        List<String> lines = lines();
        assertEquals(Arrays.asList("start", "dropped", "attempt"), each(lines, "type"));
        assertEquals("3", field(lines.get(1), "lines"));
    }

    @Test public void whatAVanishedFileSaidOfLossesIsSaidAgain() throws Exception {
        attachToNoFolder();
        for (int i = 0; i < 100; i++) send("A" + i, "a", SendStatus.SEND_OK);
        Thread.sleep(1_500); // those that wait are lost too
        Files.delete(folder);
        Thread.sleep(1_500);
        send("Y", "a", SendStatus.SEND_OK);
        Thread.sleep(500);
        deleteFolder();
        send("Z", "a", SendStatus.SEND_OK);
        recorder.close();
        assertEquals(Arrays.asList("start", "dropped", "attempt"), each(lines(), "type"));
        assertEquals("101", field(lines().get(1), "lines"));
        assertEquals(101, recorder.dropped());
    }

    @Test public void filesAreClosedBySizeAndByAge() throws Exception {
        recorder.close();
        recorder = attached(500, 300_000, 8_192);
        for (int i = 0; i < 3; i++) { send("A" + i, "a", SendStatus.SEND_OK); send("B" + i, "a", SendStatus.SEND_OK); Thread.sleep(300); }
        int bySize = files().size();
        recorder.close();
        recorder = attached(64L << 20, 300, 8_192);
        send("C", "a", SendStatus.SEND_OK);
        Thread.sleep(1_500);
        assertTrue(bySize >= 2);
        assertTrue("the file is closed though nothing more comes", lines().stream().anyMatch(l -> l.contains("\"C\"")));
        assertEquals(7, attempts().size());
    }

    @Test public void aFileIsClosedAfterAThirdOfItsTimeWithoutALine() throws Exception {
        recorder.close();
        recorder = attached(64L << 20, 4_500, 8_192);
        for (int i = 0; i < 10; i++) { send("A" + i, "a", SendStatus.SEND_OK); Thread.sleep(250); }
        assertEquals("lines come, and it is not old yet", 0, files().size());
        Thread.sleep(2_300);
        assertEquals(1, files().size());
        assertEquals(10, attempts().size());
    }

    @Test public void whatAKilledProcessLeftBehindIsFinishedAndWhatIsInUseIsNot() throws Exception {
        send("A", "a", SendStatus.SEND_OK);
        Thread.sleep(500);
        Path left = folder.resolve("sends-1-x.jsonl.part"), empty = folder.resolve("sends-2-x.jsonl.part");
        Files.write(left, "{\"type\":\"attempt\"}\n{\"type\":\"atte".getBytes(StandardCharsets.UTF_8));
        Files.write(empty, "{".getBytes(StandardCharsets.UTF_8));
        SendRecorder next = attached(64L << 20, 300_000, 8_192);
        Thread.sleep(500);
        assertEquals(Collections.singletonList("sends-1-x.jsonl"), files());
        assertEquals(Collections.singletonList("{\"type\":\"attempt\"}"), lines());
        assertFalse(Files.exists(empty));
        next.close();
        assertEquals(2, attempts().size());
    }

    @Test public void topicsWithASelectorAreSaidToBe() throws IOException {
        SendMessageContext context = new SendMessageContext();
        MessageBatch batch = MessageBatch.generateFromList(Collections.singletonList(new Message("Pinned", new byte[0])));
        MessageClientIDSetter.setUniqID(batch.iterator().next());
        context.setMessage(batch);
        context.setMq(new MessageQueue("Pinned", "a", 0));
        context.setCommunicationMode(CommunicationMode.ONEWAY);
        recorder.sendMessageBefore(context);
        recorder.sendMessageAfter(context);
        String line = attempts().get(0);
        assertEquals("application", field(line, "queueSelectedBy"));
        assertEquals(MessageClientIDSetter.getUniqID(batch.iterator().next()), field(line, "msgId"));
        assertNull(field(line, "status"));
    }
}
