import java.io.*;
import java.util.*;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Members of a group that let brokers assign. Lines on stdin: "mode POP|PULL SHARE", "join NAME [own]" (own: it rebalances itself), "leave NAME"; each is answered by "done". */
public class Pops {
    static final String TOPIC = "PopOrders", GROUP = "g_pops";
    static final Map<String, DefaultMQPushConsumer> MEMBERS = new TreeMap<>();

    public static void main(String[] args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(5000L);
        admin.setNamesrvAddr(args[0]);
        admin.setInstanceName("pops" + System.nanoTime());
        admin.start();
        List<String> brokers = new ArrayList<>();
        for (BrokerData data : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) brokers.add(data.selectBrokerAddr());
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName(GROUP);
        for (String broker : brokers) {
            admin.createAndUpdateTopicConfig(broker, new org.apache.rocketmq.common.TopicConfig(TOPIC, 4, 4));
            admin.createAndUpdateSubscriptionGroupConfig(broker, group);
        }
        produce(args[0]);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; System.out.println("done")) {
            String[] words = line.split(" ");
            if (words[0].equals("mode")) for (String broker : brokers) admin.setMessageRequestMode(broker, TOPIC, GROUP, MessageRequestMode.valueOf(words[1]), Integer.parseInt(words[2]), 5000);
            if (words[0].equals("join")) MEMBERS.put(words[1], member(args[0], words[1], words.length > 2));
            if (words[0].equals("leave")) MEMBERS.remove(words[1]).shutdown();
        }
        System.exit(0);
    }

    static void produce(String nameServers) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_pops");
        producer.setNamesrvAddr(nameServers);
        producer.start();
        Thread sender = new Thread(() -> { for (int i = 0; ; i++) try { producer.send(new Message(TOPIC, ("m" + i).getBytes())); Thread.sleep(100); } catch (Exception e) { e.printStackTrace(); } });
        sender.setDaemon(true);
        sender.start();
    }

    static DefaultMQPushConsumer member(String nameServers, String name, boolean own) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP);
        consumer.setNamesrvAddr(nameServers);
        consumer.setInstanceName(name);
        consumer.setClientRebalance(own);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        return consumer;
    }
}
