import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.concurrent.ConcurrentMap;

import io.netty.channel.Channel;
import io.netty.channel.embedded.EmbeddedChannel;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.impl.CommunicationMode;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.ServiceState;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.InvokeCallback;
import org.apache.rocketmq.remoting.RemotingClient;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.exception.RemotingSendRequestException;
import org.apache.rocketmq.remoting.exception.RemotingTimeoutException;
import org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException;
import org.apache.rocketmq.remoting.netty.ResponseFuture;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Sends by the real DefaultMQProducerImpl#sendDefaultImpl of the release on the class path, over a network that follows
 * a drawn script and by a clock that only the script moves. One JSON line a send: settings, every request, what a hook
 * saw, what the caller got. Arguments: release, first seed, how many.
 */
public final class SendCalls {
    private static final String TOPIC = "T";
    private static final int[] STATUSES = {10, 11, 12};  // FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT
    private static final int[] CODES = {1, 2, 13, 14, 16, 17, 204, 205, 215, 1500, 3};

    private final Random drawn;
    private final CommunicationMode mode;
    private final List<String> requests = new ArrayList<>(), seen = new ArrayList<>(), told = new ArrayList<>();
    private final PriorityQueue<Due> ahead = new PriorityQueue<>(Comparator.comparingLong(due -> due.at));
    private final Map<String, String> nameOf = new HashMap<>();

    private String withoutAddress;

    private record Due(long at, Runnable run) { }

    private SendCalls(long seed) {
        drawn = new Random(seed);
        int which = drawn.nextInt(10);
        mode = which < 6 ? CommunicationMode.SYNC : which < 9 ? CommunicationMode.ASYNC : CommunicationMode.ONEWAY;
    }

    public static void main(String[] args) throws Exception {
        for (long seed = Long.parseLong(args[1]), end = seed + Long.parseLong(args[2]); seed < end; seed++)
            System.out.println(new SendCalls(seed).line(args[0], seed));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private String line(String release, long seed) throws Exception {
        Clock.now = 1_000_000;
        DefaultMQProducer producer = new DefaultMQProducer("g");
        producer.setNamesrvAddr("10.0.0.9:9876");
        producer.setRetryTimesWhenSendFailed(drawn.nextInt(4));
        producer.setRetryTimesWhenSendAsyncFailed(drawn.nextInt(3));
        producer.setRetryAnotherBrokerWhenNotStoreOK(drawn.nextInt(2) == 0);
        long timeout = new long[] {300, 1000, 3000, 10_000}[drawn.nextInt(4)];
        DefaultMQProducerImpl impl = running(producer);
        Object result = null;
        Throwable thrown = null;
        Method send = DefaultMQProducerImpl.class.getDeclaredMethod(
            "sendDefaultImpl", Message.class, CommunicationMode.class, SendCallback.class, long.class);
        send.setAccessible(true);
        Message message = new Message(TOPIC, "x".getBytes(StandardCharsets.UTF_8));
        try {
            result = send.invoke(impl, message, mode, mode == CommunicationMode.ASYNC ? new Told() : null, timeout);
        } catch (InvocationTargetException e) {
            thrown = e.getCause();
        }
        long returned = Clock.now;
        for (Due due; (due = ahead.poll()) != null; due.run.run()) Clock.now = Math.max(Clock.now, due.at);
        return "{" + String.join(",", text("release", release), "\"seed\":" + seed, text("mode", mode.name()),
            text("without_address", withoutAddress),
            "\"settings\":{\"timeout_ms\":" + timeout + ",\"retry_times_sync\":" + producer.getRetryTimesWhenSendFailed()
                + ",\"retry_times_async\":" + producer.getRetryTimesWhenSendAsyncFailed()
                + ",\"retry_another_broker\":" + producer.isRetryAnotherBrokerWhenNotStoreOK() + "}",
            "\"requests\":[" + String.join(",", requests) + "]", "\"seen\":[" + String.join(",", seen) + "]",
            "\"returned\":" + returned, "\"caller\":" + outcome((SendResult) result, thrown),
            "\"callbacks\":[" + String.join(",", told) + "]") + "}";
    }

    private DefaultMQProducerImpl running(DefaultMQProducer producer) throws Exception {
        DefaultMQProducerImpl impl = producer.getDefaultMQProducerImpl();
        MQClientInstance factory = new MQClientInstance(producer.cloneClientConfig(), 0, "client");
        set(impl, "mQClientFactory", factory);
        set(impl, "serviceState", ServiceState.RUNNING);
        set(factory.getMQClientAPIImpl(), "remotingClient", network());
        TopicPublishInfo route = new TopicPublishInfo();
        Field brokers = MQClientInstance.class.getDeclaredField("brokerAddrTable");
        brokers.setAccessible(true);
        @SuppressWarnings("unchecked")
        ConcurrentMap<String, HashMap<Long, String>> addresses = (ConcurrentMap<String, HashMap<Long, String>>) brokers.get(factory);
        int count = 1 + drawn.nextInt(3), absent = drawn.nextInt(16);
        for (int b = 0; b < count; b++) {
            String name = "broker-" + (char) ('a' + b), address = "10.0.0." + b + ":10911";
            nameOf.put(address, name);
            if (b == absent) withoutAddress = name;
            else addresses.put(name, new HashMap<>(Map.of(0L, address)));
            for (int q = 0; q < 2; q++) route.getMessageQueueList().add(new MessageQueue(TOPIC, name, q));
        }
        route.setHaveTopicRouterInfo(true);
        impl.getTopicPublishInfoTable().put(TOPIC, route);
        impl.registerSendMessageHook(new Hook());
        return impl;
    }

    private static void set(Object of, String name, Object value) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(of, value);
    }

    // -- the network -------------------------------------------------------------------------------------------------

    private RemotingClient network() {
        InvocationHandler handler = (proxy, method, args) -> switch (method.getName()) {
            case "invokeSync" -> sync((String) args[0], (RemotingCommand) args[1], (Long) args[2]);
            case "invokeAsync" -> async((String) args[0], (RemotingCommand) args[1], (Long) args[2], (InvokeCallback) args[3]);
            case "invokeOneway" -> oneway((String) args[0], (RemotingCommand) args[1], (Long) args[2]);
            case "getNameServerAddressList", "getAvailableNameSrvList" -> List.of();
            default -> null;
        };
        return (RemotingClient) Proxy.newProxyInstance(
            SendCalls.class.getClassLoader(), new Class<?>[] {RemotingClient.class}, handler);
    }

    private RemotingCommand sync(String address, RemotingCommand request, long timeout) throws Exception {
        if (!nameOf.containsKey(String.valueOf(address))) throw new RemotingConnectException("a name server");
        asked(address, request, timeout);
        int how = drawn.nextInt(20);
        long takes = takes();
        if (how < 4) throw after(1, new RemotingConnectException(address));
        if (how < 5) throw after(takes, new RemotingSendRequestException(address, new java.io.IOException("reset")));
        if (how < 7) throw after(takes, new InterruptedException("stopped"));
        if (how < 8) throw after(takes, new IllegalStateException("of another kind"));
        if (how < 11 || takes > timeout) throw after(Math.max(0, timeout), new RemotingTimeoutException(address, timeout));
        Clock.now += takes;
        return answer(how < 13 ? 0 : how < 16 ? STATUSES[drawn.nextInt(3)] : CODES[drawn.nextInt(CODES.length)]);
    }

    private Object oneway(String address, RemotingCommand request, long timeout) throws Exception {
        asked(address, request, timeout);
        int how = drawn.nextInt(4);
        if (how < 1) throw after(1, new RemotingConnectException(address));
        if (how < 2) throw after(1, new RemotingTooMuchRequestException("invokeOneway: too much"));
        return null;
    }

    private Object async(String address, RemotingCommand request, long timeout, InvokeCallback callback) throws Exception {
        asked(address, request, timeout);
        int how = drawn.nextInt(12);
        long takes = takes();
        if (how < 3) {
            RemotingConnectException refused = after(1, new RemotingConnectException(address));
            Method fail = failing(callback);
            if (fail == null) throw refused;
            fail.invoke(callback, refused);  // 5.2.0 on: a channel is opened by another thread
            return null;
        }
        if (how < 4) throw after(1, new RemotingTooMuchRequestException("invokeAsync: too much"));
        ResponseFuture future = future(request, timeout, callback);
        boolean isLate = how < 6 || takes > timeout;
        // Answers that are late are looked for once a second, a second after they were due (scanResponseTable).
        ahead.add(new Due(Clock.now + (isLate ? Math.max(0, timeout) + 1001 : takes), () -> {
            future.setSendRequestOK(how != 6);
            if (!isLate && how != 6) future.putResponse(answer(how < 9 ? 0 : how < 10 ? STATUSES[drawn.nextInt(3)] : CODES[drawn.nextInt(CODES.length)]));
            if (how == 6) future.setCause(new java.io.IOException("reset"));
            future.executeInvokeCallback();
        }));
        return null;
    }

    private static Method failing(InvokeCallback callback) {
        return Arrays.stream(InvokeCallback.class.getMethods()).filter(m -> m.getName().equals("operationFail"))
            .peek(m -> m.setAccessible(true)).findAny().orElse(null);
    }

    private static ResponseFuture future(RemotingCommand request, long timeout, InvokeCallback callback) throws Exception {
        Constructor<?> longest = Arrays.stream(ResponseFuture.class.getConstructors())
            .max(Comparator.comparingInt(Constructor::getParameterCount)).get();
        Object[] given = Arrays.stream(longest.getParameterTypes()).map(type -> {
            if (type == Channel.class) return new EmbeddedChannel();
            if (type == int.class) return request.getOpaque();
            if (type == long.class) return timeout;
            return type == RemotingCommand.class ? request : type == InvokeCallback.class ? callback : null;
        }).toArray();
        return (ResponseFuture) longest.newInstance(given);
    }

    private long takes() {
        return new long[] {1, 5, 20, 80, 400, 1200, 3500}[drawn.nextInt(7)] + drawn.nextInt(3);
    }

    private static <E extends Exception> E after(long ms, E thrown) {
        Clock.now += ms;
        return thrown;
    }

    private static RemotingCommand answer(int code) {
        RemotingCommand answer = RemotingCommand.createResponseCommand(code, "said so");
        answer.setExtFields(new HashMap<>(Map.of("msgId", "0A", "queueId", "0", "queueOffset", "1")));
        return answer;
    }

    private void asked(String address, RemotingCommand request, long timeout) {
        requests.add("{\"at\":" + Clock.now + "," + text("broker", nameOf.get(address)) + ",\"timeout_ms\":" + timeout + "}");
    }

    // -- what is seen ------------------------------------------------------------------------------------------------

    private final class Told implements SendCallback {
        @Override public void onSuccess(SendResult result) { told.add(outcome(result, null)); }
        @Override public void onException(Throwable thrown) { told.add(outcome(null, thrown)); }
    }

    private final class Hook implements SendMessageHook {
        @Override public String hookName() { return "vectors"; }

        @Override public void sendMessageBefore(SendMessageContext context) {
            context.setProps(new HashMap<>(Map.of("begin", "" + Clock.now, "broker", context.getMq().getBrokerName(),
                "queue", "" + context.getMq().getQueueId())));
        }

        @Override public void sendMessageAfter(SendMessageContext context) {
            Map<String, String> own = context.getProps();
            seen.add("{\"begin\":" + own.get("begin") + ",\"end\":" + Clock.now + "," + text("broker", own.get("broker"))
                + ",\"queue_id\":" + own.get("queue") + ",\"told\":" + outcome(context.getSendResult(), context.getException()) + "}");
        }
    }

    private static String outcome(SendResult result, Throwable thrown) {
        if (thrown == null) return result == null ? "null" : "{\"at\":" + Clock.now + "," + text("status", result.getSendStatus().name()) + "}";
        Integer code = null;
        if (thrown instanceof MQBrokerException) code = ((MQBrokerException) thrown).getResponseCode();
        if (thrown instanceof MQClientException) code = ((MQClientException) thrown).getResponseCode();
        return "{\"at\":" + Clock.now + "," + text("exception", thrown.getClass().getName()) + "," + text("error", thrown.getMessage())
            + ",\"code\":" + code + "}";
    }

    private static String text(String name, String value) {
        if (value == null) return "\"" + name + "\":null";
        StringBuilder out = new StringBuilder("\"" + name + "\":\"");
        for (char c : value.toCharArray())
            out.append(c == '\n' ? "\\n" : c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c < ' ' ? " " : "" + c);
        return out.append('"').toString();
    }
}
