package rocketmq.hindsight;

import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.hook.*;
import org.apache.rocketmq.client.impl.CommunicationMode;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.message.*;

/**
 * Records a producer's attempts to send: {@code SendRecorder.attach(producer, folder)}, once, before the first send.
 * The sending thread makes a line and hands it over: it never waits for a disk, and no send fails for a line. Body and
 * properties of a message are not recorded; its tag is, by which brokers filter, and its keys are after {@link #withKeys}.
 * One class file serves clients 4.7.1 to 5.5.0.
 */
public final class SendRecorder implements SendMessageHook, AutoCloseable {
    private final DefaultMQProducer producer;
    private final Set<String> topicsWithSelector;
    private final LineFiles files;
    private final long attachedAt = System.currentTimeMillis();
    private final ThreadLocal<Map<String, String>> latest = new ThreadLocal<>(); // SYNC attempt of this thread
    private volatile boolean hasKeys;
    private volatile String clientId; // null until the first attempt: the producer's start may change it

    /**
     * With files of 64 MiB or 45 seconds, and 8,192 waiting lines: a minute later at most a run that is made every
     * minute has taken the line in. A file in which nothing was written for a third of that is closed earlier.
     */
    public static SendRecorder attach(DefaultMQProducer producer, Path folder) {
        return attach(producer, folder, Collections.<String>emptySet(), 64L << 20, 45_000, 8_192);
    }

    /**
     * With files of so many bytes or milliseconds; of lines that wait for the disk, more than {@code waitingLines} are
     * lost. {@code topicsWithSelector}: those whose queue the application chooses itself, which no hook can see.
     */
    @SuppressWarnings("deprecation") // no other way to it is left open
    public static SendRecorder attach(DefaultMQProducer producer, Path folder, Set<String> topicsWithSelector,
            long fileBytes, long fileMillis, int waitingLines) {
        SendRecorder recorder = new SendRecorder(
            producer, topicsWithSelector, new LineFiles("sends-", folder, fileBytes, fileMillis, waitingLines));
        producer.getDefaultMQProducerImpl().registerSendMessageHook(recorder);
        return recorder;
    }

    private SendRecorder(DefaultMQProducer producer, Set<String> topicsWithSelector, LineFiles files) {
        this.producer = producer;
        this.topicsWithSelector = topicsWithSelector;
        this.files = files;
    }

    @Override public String hookName() { return "hindsight"; }

    /** Keys of the messages are recorded too: {@code SendRecorder.attach(producer, folder).withKeys()}. */
    public SendRecorder withKeys() {
        hasKeys = true;
        return this;
    }

    /** Lines lost so far, for the application's own metrics. */
    public long dropped() { return files.dropped.get(); }

    /** Writes what waits and finishes the file; what comes later is lost. It is done by itself where the JVM ends. */
    @Override public void close() { files.close(); }

    /** A context is one attempt: what is put into it comes back when the attempt ends, on whichever thread. */
    @Override public void sendMessageBefore(SendMessageContext context) {
        if (clientId == null) start();
        Map<String, String> before = latest.get(), own = new HashMap<>();
        if (context.getProps() != null) own.putAll(context.getProps()); // another hook's
        own.put("msgId", msgId(context.getMessage()));
        // Now: before 5.1.4 another thread's choice may change this very queue object (MQFaultStrategy).
        own.put("broker", context.getMq().getBrokerName());
        own.put("queueId", String.valueOf(context.getMq().getQueueId()));
        boolean isSync = context.getCommunicationMode() == CommunicationMode.SYNC;
        // An application may send a message anew, and its id with it: that is no retry.
        boolean again = isSync && before != null && before.get("msgId").equals(own.get("msgId"))
            && !isStored(before.get("status")) && Integer.parseInt(before.get("times")) < producer.getRetryTimesWhenSendFailed();
        own.put("times", again ? String.valueOf(Integer.parseInt(before.get("times")) + 1) : "0");
        own.put("last", again ? before.get("broker") : null);
        own.put("thread", Thread.currentThread().getName());
        latest.set(isSync ? own : null);
        context.setProps(own);
        own.put("begin", String.valueOf(System.currentTimeMillis()));
    }

    @Override public void sendMessageAfter(SendMessageContext context) {
        try {
            files.write(line(context, context.getProps()));
        } catch (RuntimeException unexpected) {
            files.dropped.incrementAndGet();
        }
    }

    private boolean isStored(String status) {
        return status != null && (status.equals("SEND_OK") || !producer.isRetryAnotherBrokerWhenNotStoreOK());
    }

    private String line(SendMessageContext context, Map<String, String> own) {
        String topic = context.getMq().getTopic(), broker = own.get("broker");
        SendResult result = context.getSendResult();
        Exception thrown = context.getException();
        // ASYNC calls twice, in either order: the thread that handed over may find what the callback was told.
        boolean handsOver = context.getCommunicationMode() == CommunicationMode.ASYNC
            && own.get("thread").equals(Thread.currentThread().getName()) && (thrown == null || own.containsKey("told"));
        if (!handsOver) own.put("told", "");
        Json json = named("attempt").add("thread", own.get("thread")).add("topic", topic)
            .add("broker", broker).add("brokerAddr", context.getBrokerAddr())
            .add("queueId", Integer.valueOf(own.get("queueId"))).add("mode", context.getCommunicationMode().name())
            .add("queueSelectedBy", topicsWithSelector.contains(topic) ? "application" : null)
            .add("lastBrokerName", own.get("last")).add("times", Integer.valueOf(own.get("times")))
            .add("beginMs", Long.valueOf(own.get("begin"))).add("endMs", System.currentTimeMillis())
            .add("msgId", own.get("msgId")).add("tag", context.getMessage().getTags())
            .add("key", hasKeys ? context.getMessage().getKeys() : null);
        if (handsOver || thrown == null && result == null) return json.end();
        if (thrown != null) return json.add("exception", thrown.getClass().getName()).add("error", thrown.getMessage()).end();
        own.put("status", result.getSendStatus().name());
        String answering = result.getMessageQueue() == null ? null : result.getMessageQueue().getBrokerName();
        // Where another than the one chosen answered, ASYNC tried again: all that a hook sees of it.
        return json.add("answeredBy", broker.equals(answering) ? null : answering)
            .add("status", own.get("status")).add("offsetMsgId", result.getOffsetMsgId())
            .add("queueOffset", result.getQueueOffset()).add("queueOffsetOf", queueOffsetOf(context.getMessage()))
            .add("batchMsgIds", batchMsgIds(context.getMessage())).end();
    }

    /** Half messages and delayed ones are kept in queues of RocketMQ's own: the answer's offset is of these. */
    private static String queueOffsetOf(Message message) {
        if ("true".equals(message.getProperty("TRAN_MSG"))) return "half";
        if (message.getDelayTimeLevel() > 0) return "delay";
        for (String timer : new String[] {"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"})
            if (message.getProperty(timer) != null) return "timer";
        return "topic";
    }

    /** Of a batch, the ids of its messages in order: they are stored one behind the other. */
    private static String batchMsgIds(Message message) {
        if (!(message instanceof MessageBatch)) return null;
        StringJoiner ids = new StringJoiner(",");
        for (Message one : (MessageBatch) message) ids.add(msgId(one));
        return ids.toString();
    }

    private synchronized void start() {
        if (clientId != null) return;
        clientId = producer.buildMQClientId();
        String line = named("start").add("ts", attachedAt).add("version", orNull(SendRecorder::version))
            .add("startDetectorEnable", orNull(() -> producer.getClass().getMethod("isStartDetectorEnable").invoke(producer)))
            .add("sendLatencyFaultEnable", producer.isSendLatencyFaultEnable())
            .add("latencyMax", producer.getLatencyMax())
            .add("notAvailableDuration", producer.getNotAvailableDuration())
            .add("retryTimesWhenSendFailed", producer.getRetryTimesWhenSendFailed())
            .add("retryTimesWhenSendAsyncFailed", producer.getRetryTimesWhenSendAsyncFailed())
            .add("retryAnotherBrokerWhenNotStoreOK", producer.isRetryAnotherBrokerWhenNotStoreOK())
            .add("sendMsgTimeout", producer.getSendMsgTimeout()).end();
        files.loss = lost -> named("dropped").add("ts", System.currentTimeMillis()).add("lines", lost).end();
        files.start = line;
    }

    private Json named(String type) {
        return new Json().add("type", type).add("group", producer.getProducerGroup()).add("clientId", clientId);
    }

    /** In some releases a batch has no id of its own; its first message has one in all. */
    private static String msgId(Message message) {
        String own = message.getProperty("UNIQ_KEY");
        return own == null && message instanceof MessageBatch ? msgId(((MessageBatch) message).iterator().next()) : own;
    }

    /** Looked up at run time: a compiler copies the number of the release that it compiles against. */
    static String version() throws ReflectiveOperationException {
        int ordinal = MQVersion.class.getField("CURRENT_VERSION").getInt(null);
        return MQVersion.getVersionDesc(ordinal).substring(1).replace('_', '.');
    }

    static Object orNull(Callable<?> ofSomeReleases) {
        try {
            return ofSomeReleases.call();
        } catch (Exception none) {
            return null;
        }
    }
}
