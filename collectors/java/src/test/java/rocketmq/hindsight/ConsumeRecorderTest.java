package rocketmq.hindsight;

import static org.junit.Assert.*;

import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.hook.ConsumeMessageContext;
import org.apache.rocketmq.common.message.*;
import org.junit.*;
import org.junit.rules.TemporaryFolder;

/** The hook called as the client calls it, without a broker. */
public class ConsumeRecorderTest {
    @Rule public final TemporaryFolder temporary = new TemporaryFolder();
    private final DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("cg");

    private List<String> lines() throws Exception {
        List<String> lines = new ArrayList<>();
        try (Stream<Path> all = Files.list(temporary.getRoot().toPath())) {
            for (Path one : all.filter(p -> p.toString().endsWith(".jsonl")).collect(Collectors.toList()))
                for (String line : Files.readAllLines(one, StandardCharsets.UTF_8)) if (!line.contains("\"alive\"")) lines.add(line);
        }
        return lines;
    }

    private static ConsumeMessageContext given(long... offsets) {
        ConsumeMessageContext context = new ConsumeMessageContext();
        List<MessageExt> messages = new ArrayList<>();
        for (long offset : offsets) {
            MessageClientExt message = new MessageClientExt();
            message.setTopic("T");
            message.setQueueOffset(offset);
            message.setTags("a");
            MessageAccessor.putProperty(message, "UNIQ_KEY", "A" + offset);
            message.setOffsetMsgId("B" + offset);
            messages.add(message);
        }
        context.setMsgList(messages);
        context.setMq(new MessageQueue("%RETRY%cg", "broker-a", 0));
        context.setProps(new HashMap<>());
        return context;
    }

    private static void assertHas(String line, String... parts) {
        for (String part : parts) assertTrue(part + " is not in " + line, line.contains(part));
    }

    @Test public void aDeliveryIsALineAsItBeginsAndOneAsItEnds() throws Exception {
        ConsumeRecorder recorder = ConsumeRecorder.attach(consumer, temporary.getRoot().toPath());
        ConsumeMessageContext context = given(7, 8), killed = given(9);
        recorder.consumeMessageBefore(context);
        context.getProps().put("ConsumeContextType", "SUCCESS");
        context.setSuccess(true);
        recorder.consumeMessageAfter(context);
        recorder.consumeMessageBefore(killed);
        recorder.close();
        List<String> lines = lines();
        assertEquals(7, lines.size());
        assertHas(lines.get(0), "\"type\":\"start\"", "\"group\":\"cg\"", "\"messageModel\":\"CLUSTERING\"", "\"maxReconsumeTimes\":-1");
        assertHas(lines.get(2), "\"type\":\"begin\"", "\"msgId\":\"A8\"", "\"offsetMsgId\":\"B8\"", "\"topic\":\"T\"",
            "\"queueTopic\":\"%RETRY%cg\"", "\"broker\":\"broker-a\"", "\"queueOffset\":8", "\"tag\":\"a\"");
        assertHas(lines.get(4), "\"type\":\"end\"", "\"msgId\":\"A8\"", "\"success\":true", "\"result\":\"SUCCESS\"");
        assertHas(lines.get(5), "\"type\":\"begin\"", "\"msgId\":\"A9\"");
        assertHas(lines.get(6), "\"type\":\"stop\"", "\"shutDown\":false");
    }

    @Test public void linesThatAreLostAreCounted() throws Exception {
        Path folder = temporary.getRoot().toPath();
        ConsumeRecorder recorder = ConsumeRecorder.attach(consumer, folder, 64L << 20, 300_000, 1, 30_000);
        for (int i = 0; i < 5_000; i++) recorder.consumeMessageBefore(given(i));
        assertTrue(recorder.dropped() > 0);
        recorder.close();
    }
}
