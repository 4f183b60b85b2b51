import java.nio.file.Paths;
import java.util.*;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;
import rocketmq.hindsight.*;

/**
 * Clients with settings as its arguments say, until the end of stdin; then consumers shut down.
 *
 * Arguments: name servers, folder of hook lines, then "consumer;group;topic;tags;strategy;instance" (an empty instance: the
 * release's own) or "producer;group;topic;time-out;switch;bytes" (time-out 0: twice what a quick send of it takes).
 */
public class Configured {
    static final List<DefaultMQPushConsumer> CONSUMERS = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        for (int i = 2; i < args.length; i++) {
            String[] spec = args[i].split(";", -1);
            if (spec[0].equals("consumer")) consumer(args[0], spec);
            else producer(args[0], args[1], spec);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) { }
        for (DefaultMQPushConsumer one : CONSUMERS) one.shutdown();
        System.exit(0);
    }

    static void consumer(String nameServers, String[] spec) throws Exception {
        DefaultMQPushConsumer one = new DefaultMQPushConsumer(spec[1]);
        one.setNamesrvAddr(nameServers);
        one.setConsumeThreadMin(1);
        one.setConsumeThreadMax(1);
        if (!spec[5].isEmpty()) one.setInstanceName(spec[5]);
        if (spec[4].equals("CIRCLE")) one.setAllocateMessageQueueStrategy(new AllocateMessageQueueAveragelyByCircle());
        one.subscribe(spec[2], spec[3]);
        one.registerMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        one.start();
        CONSUMERS.add(one);
    }

    static void producer(String nameServers, String folder, String[] spec) throws Exception {
        int timeout = Integer.parseInt(spec[3]), bytes = Integer.parseInt(spec[5]);
        if (timeout == 0) {
            DefaultMQProducer tried = new DefaultMQProducer(spec[1] + "_tried");
            tried.setNamesrvAddr(nameServers);
            tried.setInstanceName(spec[1] + "_tried");
            tried.setCompressMsgBodyOverHowmuch(1 << 30);
            tried.start();
            send(tried, spec[2], bytes, 40); // warm
            timeout = (int) (2 * send(tried, spec[2], bytes, 40)[10] / 1_000_000) + 1;
            tried.shutdown();
        }
        DefaultMQProducer producer = new DefaultMQProducer(spec[1]);
        producer.setNamesrvAddr(nameServers);
        producer.setInstanceName(spec[1]);
        producer.setCompressMsgBodyOverHowmuch(1 << 30);
        producer.setSendMsgTimeout(timeout);
        producer.setSendLatencyFaultEnable(spec[4].equals("on"));
        SendRecorder.attach(producer, Paths.get(folder), Collections.<String>emptySet(), 64L << 20, 3_000, 8_192);
        producer.start();
        send(producer, spec[2], bytes, 40);
    }

    /** What sends take (ns), the shortest first; those that fail count too. */
    static long[] send(DefaultMQProducer producer, String topic, int bytes, int sends) {
        long[] took = new long[sends];
        for (int i = 0; i < sends; i++) {
            long begin = System.nanoTime();
            try {
                producer.send(new Message(topic, new byte[bytes]));
            } catch (Exception late) { }
            took[i] = System.nanoTime() - begin;
        }
        Arrays.sort(took);
        return took;
    }
}
