import com.alibaba.fastjson2.JSON;
import java.io.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.*;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Clients of a test cluster, and what rocketmq-tools says of them: a line "snap FILE" on stdin writes FILE, then prints "done". */
public class Look {
    static String nameServers;
    static final String[] TOPICS = {"LookOrders", "LookSeldom"};
    static final List<String> GROUPS = new ArrayList<>(Arrays.asList("g_push", "g_orderly", "g_bcast", "g_left_a_b", "g_never"));

    public static void main(String[] args) throws Exception {
        nameServers = args[0];
        DefaultMQAdminExt admin = admin(nameServers);
        Map<String, String> brokers = brokers(admin);
        for (String address : brokers.values()) for (String topic : TOPICS) admin.createAndUpdateTopicConfig(address, new org.apache.rocketmq.common.TopicConfig(topic, 4, 4));
        produce();
        for (int i = 0, more = Integer.parseInt(args[1]); i < more; i++) { GROUPS.add("g_more" + i); consume("g_more" + i, "a" + i); consume("g_more" + i, "b" + i); }
        for (String[] c : new String[][] {{"g_push", "a"}, {"g_push", "b"}, {"g_push", "c"}, {"g_orderly", "a"}, {"g_bcast", "a"}, {"g_bcast", "b"}, {"g_left_a_b", "a"}}) consume(c[0], c[1]);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; System.out.println("done"))
            try (PrintStream out = new PrintStream(line.substring(5), "UTF-8")) { snap(admin, brokers, out); }
        System.exit(0);
    }

    static DefaultMQAdminExt admin(String servers) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(5000L);
        admin.setNamesrvAddr(servers);
        admin.setInstanceName("look" + System.nanoTime());
        admin.start();
        return admin;
    }

    static Map<String, String> brokers(DefaultMQAdminExt admin) throws Exception {
        Map<String, String> found = new TreeMap<>();
        for (BrokerData data : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) found.put(data.getBrokerName(), data.selectBrokerAddr());
        return found;
    }

    static void produce() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_look");
        producer.setNamesrvAddr(nameServers);
        producer.start();
        Thread sender = new Thread(() -> { for (int i = 0; ; i++) try { producer.send(new Message("LookOrders", ("m" + i).getBytes())); Thread.sleep(100); } catch (Exception e) { e.printStackTrace(); } });
        sender.setDaemon(true);
        sender.start();
    }

    static void consume(String group, String instance) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServers);
        consumer.setInstanceName(instance);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe("LookOrders", group.equals("g_left_a_b") ? "TagA || TagB" : "*");
        if (group.equals("g_bcast")) consumer.setMessageModel(MessageModel.BROADCASTING);
        if (group.equals("g_orderly")) consumer.registerMessageListener((MessageListenerOrderly) (ms, c) -> ConsumeOrderlyStatus.SUCCESS);
        else consumer.registerMessageListener((MessageListenerConcurrently) (ms, c) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
    }

    static void snap(DefaultMQAdminExt admin, Map<String, String> brokers, PrintStream out) throws Exception {
        for (String server : nameServers.split(";")) {
            DefaultMQAdminExt one = admin(server);
            for (String topic : TOPICS) line(out, "topicRoute", topic, "name_server", server, () -> one.examineTopicRouteInfo(topic));
            for (String group : new String[] {"g_push", "g_bcast"}) line(out, "topicRoute", "%RETRY%" + group, "name_server", server, () -> one.examineTopicRouteInfo("%RETRY%" + group));
            one.shutdown();
        }
        for (Map.Entry<String, String> broker : brokers.entrySet()) {
            String name = broker.getKey(), address = broker.getValue();
            for (String topic : TOPICS) {
                line(out, "topicConfig", topic, "broker", name, () -> admin.examineTopicConfig(address, topic));
                line(out, "topicStatus", topic, "broker", name, () -> admin.examineTopicStats(address, topic));
            }
            for (String group : GROUPS) {
                ConsumerConnection members = (ConsumerConnection) line(out, "consumerConnection", group, "broker", name, () -> admin.examineConsumerConnectionInfo(group, address));
                line(out, "consumerIdList", group, "broker", name, () -> admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl().getConsumerIdListByGroup(address, group, 5000));
                line(out, "consumeStats", group, "broker", name, () -> admin.examineConsumeStats(address, group, null, 5000));
                if (members != null && name.equals(brokers.keySet().iterator().next())) for (Connection c : members.getConnectionSet())
                    line(out, "consumerRunningInfo", group + "|" + c.getClientId(), "broker", name, () -> admin.getConsumerRunningInfo(group, c.getClientId(), false));
            }
        }
        line(out, "consumerRunningInfo", "g_push|nobody", "broker", "any", () -> admin.getConsumerRunningInfo("g_push", "nobody", false));
        line(out, "producerConnection", "pg_look@LookOrders", "broker", "any", () -> admin.examineProducerConnectionInfo("pg_look", "LookOrders"));
    }

    static Object line(PrintStream out, String kind, String subject, String where, String place, Callable<Object> asked) {
        Map<String, Object> line = new LinkedHashMap<>();
        Object answer = null;
        line.put("ts", System.currentTimeMillis());
        line.put("kind", kind);
        line.put("subject", subject);
        line.put(where, place);
        try {
            answer = asked.call();
            line.put("raw", answer instanceof RemotingSerializable ? ((RemotingSerializable) answer).toJson() : JSON.toJSONString(answer));
        } catch (Exception e) {
            line.put("error", (e.getClass().getName() + ": " + e.getMessage()).split("\n")[0]);
        }
        out.println(JSON.toJSONString(line));
        return answer;
    }
}
