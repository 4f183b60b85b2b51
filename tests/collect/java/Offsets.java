import java.io.*;
import java.util.*;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Groups whose offsets are moved: a line on stdin does it, then "done" is printed. Group g_calm is left alone. */
public class Offsets {
    static String nameServers;
    static DefaultMQAdminExt admin;
    static final Map<String, DefaultMQPushConsumer> CONSUMERS = new HashMap<>();
    static final AtomicInteger LOST_READ = new AtomicInteger();
    static final AtomicInteger NEAR_READ = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        nameServers = args[0];
        admin = new DefaultMQAdminExt(10000L);
        admin.setNamesrvAddr(nameServers);
        admin.start();
        for (BrokerData data : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            admin.createAndUpdateTopicConfig(data.selectBrokerAddr(), new TopicConfig("Turned", 4, 4));
            admin.createAndUpdateTopicConfig(data.selectBrokerAddr(), new TopicConfig("Bulk", 1, 1));
        }
        DefaultMQProducer producer = new DefaultMQProducer("pg_turned");
        producer.setNamesrvAddr(nameServers);
        producer.start();
        Thread sender = new Thread(() -> { for (int i = 0; ; i++) try { producer.send(new Message("Turned", ("m" + i).getBytes())); Thread.sleep(100); } catch (Exception e) { e.printStackTrace(); } });
        sender.setDaemon(true);
        sender.start();
        for (int i = 0; i < 20; i++) producer.send(new Message("Bulk", new byte[10]));
        for (String group : new String[] {"g_calm", "g_back", "g_old", "g_clone", "g_skip", "g_alone", "g_fail", "g_lost"}) consume(group, group.equals("g_lost") ? "Bulk" : "Turned");
        Thread.sleep(20000);
        // On a busy machine a group may begin late; of one that read nothing no loss can be told.
        while (LOST_READ.get() < 20) Thread.sleep(100);
        // Old ones commit as they leave, and stand from then on; g_clone and g_skip stand further on.
        CONSUMERS.get("g_old").shutdown();
        CONSUMERS.get("g_lost").shutdown();
        Thread.sleep(20000);
        CONSUMERS.get("g_clone").shutdown();
        CONSUMERS.get("g_skip").shutdown();
        // It stands in the last of some files: the first deletion takes more than lies before it.
        for (int i = 0; i < 400; i++) producer.send(new Message("Bulk", noise()));
        consume("g_near", "Bulk");
        while (NEAR_READ.get() < 420) Thread.sleep(100);
        CONSUMERS.get("g_near").shutdown();
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; System.out.println("done")) {
            if (line.equals("rewind")) admin.resetOffsetByTimestamp("Turned", "g_back", System.currentTimeMillis() - 600000, true);
            if (line.equals("clone")) admin.cloneGroupOffset("g_old", "g_clone", "Turned", true);
            if (line.equals("skip")) admin.resetOffsetByTimestampOld("g_skip", "Turned", System.currentTimeMillis(), true);
            if (line.equals("trail")) for (int i = 0; i < 5; i++) producer.send(new Message("Bulk", new byte[10]));
            if (line.equals("fill")) for (int i = 0; i < 400; i++) producer.send(new Message("Bulk", noise()));
            if (line.equals("delete")) System.err.println("deleted: " + admin.deleteExpiredCommitLog("Real"));
        }
        System.exit(0);
    }

    /** What cannot be compressed. */
    static byte[] noise() {
        byte[] bytes = new byte[250000];
        new Random().nextBytes(bytes);
        return bytes;
    }

    static void consume(String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServers);
        consumer.setInstanceName(group);
        consumer.setConsumeThreadMin(group.equals("g_alone") ? 8 : 1);
        consumer.setConsumeThreadMax(group.equals("g_alone") ? 8 : 1);
        if (group.equals("g_fail")) consumer.setMaxReconsumeTimes(1);
        if (group.equals("g_near")) consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        if (group.equals("g_alone")) consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            if (context.getMessageQueue().getQueueId() == 0) try { Thread.sleep(15000); } catch (InterruptedException e) { }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        else consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if (group.equals("g_back")) try { Thread.sleep(20); } catch (InterruptedException e) { }
            if (group.equals("g_near")) NEAR_READ.addAndGet(messages.size());
            if (group.equals("g_lost")) LOST_READ.addAndGet(messages.size());
            return group.equals("g_fail") ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CONSUMERS.put(group, consumer);
    }
}
