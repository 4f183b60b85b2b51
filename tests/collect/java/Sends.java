import java.io.*;
import java.nio.file.Paths;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import rocketmq.hindsight.SendRecorder;

/**
 * A producer with a SendRecorder: "go N" on stdin sends N messages in each way, then prints "done"; "end" ends it.
 *
 * What happened besides is written to TRUTH: "request" as the remoting layer sent it, "send" as the application saw it.
 */
public class Sends {
    static PrintStream truth;
    static final long STARTED = System.currentTimeMillis();

    public static void main(String[] args) throws Exception {
        String nameServers = args[0], folder = args[1], group = args[3];
        truth = new PrintStream(args[2], "UTF-8");
        DefaultMQProducer producer = new DefaultMQProducer(group, new RPCHook() {
            public void doBeforeRequest(String address, RemotingCommand request) { requested(address, request); }
            public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) { }
        });
        producer.setNamesrvAddr(nameServers);
        producer.setSendLatencyFaultEnable(true);
        producer.setSendMsgTimeout(6000);
        SendRecorder.attach(producer, Paths.get(folder), Collections.singleton("Pinned"), Long.getLong("bytes", 1 << 26), 300_000, 8_192);
        producer.start();
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null && line.startsWith("go "); System.out.println("done"))
            go(producer, Integer.parseInt(line.substring(3)));
        producer.shutdown();
        System.exit(0); // the recorder ends by itself
    }

    static void go(DefaultMQProducer producer, int rounds) throws Exception {
        List<CountDownLatch> all = new ArrayList<>();
        for (int i = 0; i < rounds; i++) all.add(async(producer)); // at once: before it is known that a broker is dead
        for (CountDownLatch one : all) one.await();
        for (int i = 0; i < rounds; i++) round(producer);
    }

    static CountDownLatch async(DefaultMQProducer producer) {
        Message message = message("Sends");
        CountDownLatch ended = new CountDownLatch(1);
        try {
            producer.send(message, new SendCallback() {
                public void onSuccess(SendResult result) { tell(message, "ASYNC", result, null); ended.countDown(); }
                public void onException(Throwable e) { tell(message, "ASYNC", null, e); ended.countDown(); }
            });
        } catch (Exception e) { tell(message, "ASYNC", null, e); ended.countDown(); }
        return ended;
    }

    static void round(DefaultMQProducer producer) throws Exception {
        Message sync = message("Sends"), oneway = message("Sends"), pinned = message("Pinned");
        told(sync, "SYNC", () -> producer.send(sync));
        told(pinned, "SYNC", () -> producer.send(pinned, (queues, m, arg) -> queues.get(0), null));
        told(oneway, "ONEWAY", () -> { producer.sendOneway(oneway); return null; });
        List<Message> several = Arrays.asList(message("Batches"), message("Batches"));
        told(several.get(0), "BATCH", () -> producer.send(several));
        async(producer).await();
    }

    static Message message(String topic) { return new Message(topic, "x".getBytes()); }

    static void told(Message message, String mode, Callable<SendResult> send) {
        try { tell(message, mode, send.call(), null); } catch (Exception e) { tell(message, mode, null, e); }
    }

    static void tell(Message message, String mode, SendResult result, Throwable thrown) {
        line("send", "mode", mode, "topic", message.getTopic(), "msgId", MessageClientIDSetter.getUniqID(message),
            "status", result == null ? null : result.getSendStatus().name(),
            "broker", result == null ? null : result.getMessageQueue().getBrokerName(),
            "queueId", result == null ? null : "" + result.getMessageQueue().getQueueId(),
            "offsetMsgId", result == null ? null : result.getOffsetMsgId(),
            "exception", thrown == null ? null : thrown.getClass().getName());
    }

    static void requested(String address, RemotingCommand request) {
        if (request.getCode() != 310 && request.getCode() != 10 && request.getCode() != 320) return;
        request.makeCustomHeaderToNet();
        Map<String, String> fields = request.getExtFields();
        Map<String, String> properties = MessageDecoder.string2messageProperties(fields.containsKey("i") ? fields.get("i") : fields.get("properties"));
        line("request", "address", address, "msgId", properties.get("UNIQ_KEY"), "code", "" + request.getCode(), "queueId", fields.containsKey("e") ? fields.get("e") : fields.get("queueId"));
    }

    static synchronized void line(String what, String... fields) {
        StringBuilder out = new StringBuilder("{\"what\":\"" + what + "\",\"ms\":" + System.currentTimeMillis());
        for (int i = 0; i < fields.length; i += 2) out.append(",\"" + fields[i] + "\":" + (fields[i + 1] == null ? "null" : "\"" + fields[i + 1] + "\""));
        truth.println(out.append("}"));
    }
}
