import java.io.*;
import java.nio.file.Paths;
import java.util.*;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import rocketmq.hindsight.*;

/**
 * A process of the lives of messages, with both recorders: consumers as its arguments say, told what to send on stdin.
 *
 * Arguments: name servers, landing folder, truth file, then consumers: group;topic;tags;failures;seconds;strategy;orderly[;way].
 * A listener fails so many times for each message and sleeps so many seconds; way: "broadcast" or "pop" (brokers assign). Lines: "send KIND TOPIC TAG N", "end".
 * Truth, a line each: "sent KIND msgId", "failed KIND msgId", "consumed group msgId client", "tried group msgId client".
 */
public class Lives {
    static PrintStream truth;

    public static void main(String[] args) throws Exception {
        truth = new PrintStream(new FileOutputStream(args[2], true), true, "UTF-8");
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 3; i < args.length; i++) consumers.add(consumer(args[0], args[1], args[i].split(";")));
        DefaultMQProducer producer = new DefaultMQProducer("lives");
        TransactionMQProducer transactions = new TransactionMQProducer("lives_tx");
        if (args.length == 3) {
            for (DefaultMQProducer one : Arrays.asList(producer, transactions)) {
                one.setNamesrvAddr(args[0]);
                one.setSendLatencyFaultEnable(true);
                SendRecorder.attach(one, Paths.get(args[1], "producer_hook", "cluster=real"), Collections.<String>emptySet(), 64L << 20, 3_000, 8_192).withKeys();
            }
            transactions.setTransactionListener(new TransactionListener() {
                public LocalTransactionState executeLocalTransaction(Message m, Object o) { return (LocalTransactionState) o; }
                public LocalTransactionState checkLocalTransaction(MessageExt m) { return LocalTransactionState.UNKNOW; }
            });
            producer.start();
            transactions.start();
        }
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null && line.startsWith("send "); System.out.println("done"))
            for (int i = 0, n = Integer.parseInt(line.split(" ")[4]); i < n; i++) send(producer, transactions, line.split(" "));
        for (DefaultMQPushConsumer one : consumers) one.shutdown();
        System.exit(0);
    }

    static void send(DefaultMQProducer producer, TransactionMQProducer transactions, String[] words) throws Exception {
        String kind = words[1];
        Message message = new Message(words[2], words[3], kind + System.nanoTime(), new byte[10]);
        try {
            if (kind.equals("batch")) {
                List<Message> all = new ArrayList<>();
                for (int i = 0; i < 3; i++) all.add(new Message(words[2], words[3], "b", new byte[10]));
                SendResult result = producer.send(all);
                for (Message one : all) truth.println("sent " + kind + " " + one.getProperty("UNIQ_KEY"));
                return;
            }
            if (kind.equals("delay")) message.setDelayTimeLevel(1);
            if (kind.startsWith("tx_"))
                transactions.sendMessageInTransaction(message, LocalTransactionState.valueOf(kind.substring(3)));
            else if (kind.equals("oneway")) producer.sendOneway(message);
            else if (kind.equals("ordered")) producer.send(message, (queues, m, o) -> queues.get(0), null);
            else producer.send(message);
            truth.println("sent " + kind + " " + message.getProperty("UNIQ_KEY"));
        } catch (Exception e) {
            truth.println("failed " + kind + " " + message.getProperty("UNIQ_KEY"));
        }
    }

    static DefaultMQPushConsumer consumer(String nameServers, String landing, String[] spec) throws Exception {
        DefaultMQPushConsumer one = new DefaultMQPushConsumer(spec[0]);
        int failures = Integer.parseInt(spec[3]), seconds = Integer.parseInt(spec[4]);
        one.setNamesrvAddr(nameServers);
        one.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        one.setConsumeThreadMin(4);
        one.setConsumeThreadMax(4);
        if (failures > 90) one.setMaxReconsumeTimes(1);
        if (spec[5].equals("CIRCLE")) one.setAllocateMessageQueueStrategy(new AllocateMessageQueueAveragelyByCircle());
        one.setInstanceName(spec[0] + "-" + System.nanoTime());
        one.subscribe(spec[1], spec[2]);
        String way = spec.length > 7 ? spec[7] : "";
        if (way.equals("broadcast")) one.setMessageModel(MessageModel.BROADCASTING);
        if (way.equals("pop")) pops(nameServers, spec[1], one);
        if (spec[6].equals("true"))
            one.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                heard(one, spec[0], messages, failures, seconds) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        else
            one.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                heard(one, spec[0], messages, failures, seconds) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        ConsumeRecorder.attach(one, Paths.get(landing, "consumer_hook", "cluster=real"), 64L << 20, 3_000, 8_192, 5_000);
        one.start();
        return one;
    }

    static void pops(String nameServers, String topic, DefaultMQPushConsumer consumer) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(5000L);
        admin.setNamesrvAddr(nameServers);
        admin.setInstanceName("lives" + System.nanoTime());
        admin.start();
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName(consumer.getConsumerGroup());
        for (BrokerData data : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            admin.createAndUpdateSubscriptionGroupConfig(data.selectBrokerAddr(), group);
            admin.setMessageRequestMode(data.selectBrokerAddr(), topic, consumer.getConsumerGroup(), MessageRequestMode.POP, 0, 5000);
        }
        admin.shutdown();
        consumer.setClientRebalance(false);
    }

    static boolean heard(DefaultMQPushConsumer by, String group, List<MessageExt> messages, int failures, int seconds) {
        String told = group + " " + messages.get(0).getMsgId() + " " + by.buildMQClientId();
        truth.println("tried " + told);
        try {
            Thread.sleep(seconds * 1000L);
        } catch (InterruptedException e) {
            return false;
        }
        if (messages.get(0).getReconsumeTimes() < failures) return false;
        truth.println("consumed " + told);
        return true;
    }
}
