import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.client.ConsumerGroupInfo;
import org.apache.rocketmq.broker.client.ConsumerManager;
import org.apache.rocketmq.broker.processor.QueryAssignmentProcessor;
import org.apache.rocketmq.broker.topic.TopicRouteInfoManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageQueueAssignment;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import @PROTOCOL@.RequestCode;
import @PROTOCOL@.body.QueryAssignmentRequestBody;
import @PROTOCOL@.body.QueryAssignmentResponseBody;
import @PROTOCOL@.body.SetMessageRequestModeRequestBody;
import @PROTOCOL@.heartbeat.MessageModel;

/** Asks the broker's own QueryAssignmentProcessor (request 400); the rest of the broker is what the case says. */
public class Assign {
    static Set<MessageQueue> queues;
    static List<String> members;
    static final BrokerConfig CONFIG = new BrokerConfig();

    static class Broker extends BrokerController {
        Broker() { super(null, null, null, null); }
        @Override public MessageStoreConfig getMessageStoreConfig() {
            MessageStoreConfig store = new MessageStoreConfig();
            store.setStorePathRootDir(System.getProperty("java.io.tmpdir") + "/assign-no-store");
            return store;
        }
        @Override public BrokerConfig getBrokerConfig() { return CONFIG; }
        @Override public TopicRouteInfoManager getTopicRouteInfoManager() { return make(Routes.class); }
        @Override public ConsumerManager getConsumerManager() { return make(Consumers.class); }
    }

    static class Routes extends TopicRouteInfoManager {
        Routes() { super(null); }
        @Override public Set<MessageQueue> getTopicSubscribeInfo(String topic) { return queues; }
    }

    static class Consumers extends ConsumerManager {
        Consumers() { super(null, @STATS@); }
        @Override public ConsumerGroupInfo getConsumerGroupInfo(String group) { return members == null ? null : make(Group.class); }
    }

    static class Group extends ConsumerGroupInfo {
        Group() { super("g", null, null, null); }
        @Override public List<String> getAllClientId() { return new ArrayList<>(members); }
    }

    @SuppressWarnings("unchecked")
    static <T> T make(Class<T> of) {
        try {
            Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (T) ((sun.misc.Unsafe) field.get(null)).allocateInstance(of);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] args) throws Exception {
        String release = args[0];
        int first = Integer.parseInt(args[1]), count = Integer.parseInt(args[2]);
        QueryAssignmentProcessor processor = new QueryAssignmentProcessor(make(Broker.class));
        for (int seed = first; seed < first + count; seed++) {
            System.out.println(JSON.toJSONString(answers(processor, release, seed), SerializerFeature.WriteMapNullValue));
        }
        System.exit(0);
    }

    static Map<String, Object> answers(QueryAssignmentProcessor processor, String release, int seed) throws Exception {
        Random random = new Random(seed);
        String topic = random.nextInt(8) == 0 ? "%RETRY%g" : "T" + seed;
        queues = random.nextInt(25) == 0 ? null : someQueues(random, topic);
        members = random.nextInt(25) == 0 ? null : someMembers(random);
        String mode = random.nextInt(6) == 0 ? null : random.nextInt(4) == 0 ? "PULL" : "POP";
        int share = random.nextInt(5) == 0 ? -random.nextInt(2) : random.nextInt(6);
        String strategy = new String[] {"AVG", "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"}[random.nextInt(4)];
        CONFIG.setServerLoadBalancerEnable(random.nextInt(8) != 0);
        CONFIG.setDefaultMessageRequestMode(random.nextInt(3) == 0 ? "POP" : "PULL");
        CONFIG.setDefaultPopShareQueueNum(random.nextInt(4) - 1);
        processor.getMessageRequestModeManager().getMessageRequestModeMap().clear();
        if (mode != null) {
            SetMessageRequestModeRequestBody set = new SetMessageRequestModeRequestBody();
            set.setTopic(topic);
            set.setConsumerGroup("g");
            set.setMode(MessageRequestMode.valueOf(mode));
            set.setPopShareQueueNum(share);
            processor.getMessageRequestModeManager().setMessageRequestMode(topic, "g", set);
        }
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("release", release);
        told.put("seed", seed);
        told.put("topic", topic);
        told.put("strategy", strategy);
        told.put("mode", mode);
        told.put("share", mode == null ? null : share);
        told.put("default_mode", CONFIG.getDefaultMessageRequestMode().name());
        told.put("default_share", CONFIG.getDefaultPopShareQueueNum());
        told.put("balances", CONFIG.isServerLoadBalancerEnable());
        told.put("queues", queues == null ? null : listed(queues));
        told.put("members", members);
        Set<String> asking = new TreeSet<>(members == null ? Collections.emptyList() : members);
        asking.add("nobody@0");
        Map<String, Object> answers = new LinkedHashMap<>();
        for (String client : asking) {
            answers.put(client, ask(processor, topic, client, strategy));
        }
        told.put("answers", answers);
        return told;
    }

    static Object ask(QueryAssignmentProcessor processor, String topic, String client, String strategy) throws Exception {
        QueryAssignmentRequestBody body = new QueryAssignmentRequestBody();
        body.setTopic(topic);
        body.setConsumerGroup("g");
        body.setClientId(client);
        body.setMessageModel(MessageModel.CLUSTERING);
        body.setStrategyName(strategy);
        RemotingCommand request = RemotingCommand.createRequestCommand(RequestCode.QUERY_ASSIGNMENT, null);
        request.setBody(body.encode());
        byte[] answer = processor.processRequest(null, request).getBody();
        Set<MessageQueueAssignment> given =
            QueryAssignmentResponseBody.decode(answer, QueryAssignmentResponseBody.class).getMessageQueueAssignments();
        if (given == null) {
            return null;
        }
        Set<String> modes = new TreeSet<>();
        Set<MessageQueue> handed = new HashSet<>();
        for (MessageQueueAssignment one : given) {
            modes.add(one.getMode().name());
            handed.add(one.getMessageQueue());
        }
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("modes", modes);
        told.put("queues", listed(handed));
        return told;
    }

    static List<Object[]> listed(Set<MessageQueue> of) {
        List<MessageQueue> sorted = new ArrayList<>(of);
        Collections.sort(sorted);
        List<Object[]> names = new ArrayList<>();
        for (MessageQueue queue : sorted) {
            names.add(new Object[] {queue.getBrokerName(), queue.getQueueId()});
        }
        return names;
    }

    static Set<MessageQueue> someQueues(Random random, String topic) {
        Set<MessageQueue> made = new HashSet<>();
        int brokers = 1 + random.nextInt(3);
        for (int broker = 0; broker < brokers; broker++) {
            int count = 1 + random.nextInt(random.nextInt(3) == 0 ? 12 : 4);
            for (int queue = 0; queue < count; queue++) {
                made.add(new MessageQueue(topic, "broker-" + (char) ('a' + broker), queue));
            }
        }
        return made;
    }

    static List<String> someMembers(Random random) {
        List<String> made = new ArrayList<>();
        int count = 1 + random.nextInt(random.nextInt(3) == 0 ? 16 : 5);
        for (int place = 0; place < count; place++) {
            made.add("10.0.0." + random.nextInt(40) + "@" + random.nextInt(1000) + (random.nextInt(5) == 0 ? "#é" : ""));
        }
        if (random.nextInt(8) == 0) {
            made.add(made.get(0));
        }
        return made;
    }
}
