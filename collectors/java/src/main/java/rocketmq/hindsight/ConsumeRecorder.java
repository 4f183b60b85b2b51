package rocketmq.hindsight;

import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.hook.*;
import org.apache.rocketmq.common.ServiceState;
import org.apache.rocketmq.common.message.*;

/**
 * Records what a push consumer's listener is given: {@code ConsumeRecorder.attach(consumer, folder)}, once, before the
 * consumer starts. A line as the listener is called and one as it has returned, for each message; and a line now and
 * then that says that it still records, so that the absence of a line means something. Body, keys and properties of a
 * message are not recorded; its tag is.
 */
public final class ConsumeRecorder implements ConsumeMessageHook, AutoCloseable {
    private static final String OWN = "hindsight"; // what a context brings back when the listener has returned
    private final DefaultMQPushConsumer consumer;
    private final LineFiles files;
    private final long aliveMillis, attachedAt = System.currentTimeMillis();
    private final String run = UUID.randomUUID().toString().substring(0, 18);
    private final AtomicLong deliveries = new AtomicLong();
    private volatile String clientId; // null until the consumer runs: its start may change it
    private volatile long toldAt;

    /** With files of 64 MiB or 45 seconds, 8,192 waiting lines, and every 30 seconds a line that it still records. */
    public static ConsumeRecorder attach(DefaultMQPushConsumer consumer, Path folder) {
        return attach(consumer, folder, 64L << 20, 45_000, 8_192, 30_000);
    }

    @SuppressWarnings("deprecation") // no other way to it is left open
    public static ConsumeRecorder attach(DefaultMQPushConsumer consumer, Path folder, long fileBytes, long fileMillis,
            int waitingLines, long aliveMillis) {
        LineFiles files = new LineFiles("consumes-", folder, fileBytes, fileMillis, waitingLines);
        ConsumeRecorder recorder = new ConsumeRecorder(consumer, files, aliveMillis);
        consumer.getDefaultMQPushConsumerImpl().registerConsumeMessageHook(recorder);
        return recorder;
    }

    private ConsumeRecorder(DefaultMQPushConsumer consumer, LineFiles files, long aliveMillis) {
        this.consumer = consumer;
        this.files = files;
        this.aliveMillis = aliveMillis;
        files.loss = lost -> named("dropped").add("ts", System.currentTimeMillis()).add("lines", lost).end();
        files.last = () -> clientId == null ? null
            : named("stop").add("ts", System.currentTimeMillis()).add("shutDown", isIn(ServiceState.SHUTDOWN_ALREADY)).end();
        files.sign = this::sign;
    }

    @Override public String hookName() { return OWN; }

    /** Lines lost so far, for the application's own metrics. */
    public long dropped() { return files.dropped.get(); }

    /** Writes what waits and finishes the file; close the consumer first. Done by itself where the JVM ends. */
    @Override public void close() { files.close(); }

    @Override public void consumeMessageBefore(ConsumeMessageContext context) {
        try {
            if (clientId == null) start();
            Map<String, String> own = context.getProps() == null ? new HashMap<>() : context.getProps();
            context.setProps(own);
            own.put(OWN, run + "-" + deliveries.incrementAndGet());
            own.put(OWN + "Ms", String.valueOf(System.currentTimeMillis()));
            for (MessageExt message : context.getMsgList()) files.write(begin(context, message));
        } catch (RuntimeException unexpected) {
            files.dropped.incrementAndGet();
        }
    }

    @Override public void consumeMessageAfter(ConsumeMessageContext context) {
        try {
            long now = System.currentTimeMillis(), begin = Long.parseLong(context.getProps().get(OWN + "Ms"));
            for (MessageExt message : context.getMsgList())
                files.write(of("end", context, message).add("ts", now).add("costMs", now - begin)
                    .add("success", context.isSuccess()).add("result", context.getProps().get("ConsumeContextType")).end());
        } catch (RuntimeException unexpected) {
            files.dropped.incrementAndGet();
        }
    }

    private Json of(String type, ConsumeMessageContext context, MessageExt message) {
        return named(type).add("delivery", context.getProps().get(OWN)).add("msgId", message.getMsgId());
    }

    private String begin(ConsumeMessageContext context, MessageExt message) {
        MessageQueue queue = context.getMq();
        return of("begin", context, message).add("ts", Long.valueOf(context.getProps().get(OWN + "Ms")))
            .add("offsetMsgId", message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : null)
            .add("topic", message.getTopic()).add("queueTopic", queue.getTopic()).add("broker", queue.getBrokerName())
            .add("queueId", message.getQueueId()).add("queueOffset", message.getQueueOffset())
            .add("reconsumeTimes", message.getReconsumeTimes()).add("tag", message.getTags())
            .add("storedMs", message.getStoreTimestamp()).end();
    }

    @SuppressWarnings("deprecation")
    private boolean isIn(ServiceState state) {
        return consumer.getDefaultMQPushConsumerImpl().getServiceState() == state;
    }

    /** The line that says now and then that it still records. */
    private String sign() {
        try {
            if (clientId == null && isIn(ServiceState.RUNNING)) start();
            if (clientId == null || System.currentTimeMillis() - toldAt < aliveMillis) return null;
            toldAt = System.currentTimeMillis();
            return named("alive").add("ts", toldAt).add("subscriptions", subscriptions()).end();
        } catch (RuntimeException notYet) {
            return null;
        }
    }

    @SuppressWarnings("deprecation")
    private synchronized void start() {
        if (clientId != null) return;
        clientId = consumer.buildMQClientId();
        files.start = named("start").add("ts", attachedAt).add("version", SendRecorder.orNull(SendRecorder::version))
            .add("messageModel", text(consumer, "getMessageModel"))
            .add("consumeFromWhere", consumer.getConsumeFromWhere().name())
            .add("orderly", consumer.getDefaultMQPushConsumerImpl().isConsumeOrderly())
            .add("strategy", consumer.getAllocateMessageQueueStrategy().getName())
            .add("maxReconsumeTimes", consumer.getMaxReconsumeTimes()).end();
    }

    /** {@code topic=expression} a line each; of another than tags, with its type before. */
    @SuppressWarnings("deprecation")
    private String subscriptions() {
        StringJoiner lines = new StringJoiner("\n");
        for (Map.Entry<String, ?> one : consumer.getDefaultMQPushConsumerImpl().getSubscriptionInner().entrySet()) {
            String type = text(one.getValue(), "getExpressionType");
            lines.add(one.getKey() + "=" + ("TAG".equals(type) ? "" : type + " ") + text(one.getValue(), "getSubString"));
        }
        return lines.toString();
    }

    /** By name: from 5.1.0 on these classes stand in another package. */
    private static String text(Object owner, String getter) {
        return String.valueOf(SendRecorder.orNull(() -> owner.getClass().getMethod(getter).invoke(owner)));
    }

    private Json named(String type) {
        return new Json().add("type", type).add("group", consumer.getConsumerGroup()).add("clientId", clientId);
    }
}
