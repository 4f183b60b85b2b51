import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;

import jdk.internal.org.objectweb.asm.ClassReader;
import jdk.internal.org.objectweb.asm.ClassVisitor;
import jdk.internal.org.objectweb.asm.ClassWriter;
import jdk.internal.org.objectweb.asm.MethodVisitor;
import jdk.internal.org.objectweb.asm.Opcodes;

/** Runs SendCalls with the classes of the class path given first, which then read the time from Clock. */
public final class ByClock extends URLClassLoader {
    private ByClock(URL[] places) { super(places, ClassLoader.getPlatformClassLoader()); }

    public static void main(String[] args) throws Exception {
        URL[] places = Arrays.stream(args[0].split(File.pathSeparator)).map(ByClock::url).toArray(URL[]::new);
        Class<?> made = new ByClock(places).loadClass("SendCalls");
        Thread.currentThread().setContextClassLoader(made.getClassLoader());
        made.getMethod("main", String[].class).invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
    }

    private static URL url(String place) {
        try {
            return new File(place).toURI().toURL();
        } catch (MalformedURLException e) {
            throw new IllegalArgumentException(e);
        }
    }

    @Override protected Class<?> findClass(String name) throws ClassNotFoundException {
        if (!name.startsWith("org.apache.rocketmq.")) return super.findClass(name);
        try (InputStream in = getResourceAsStream(name.replace('.', '/') + ".class")) {
            if (in == null) throw new ClassNotFoundException(name);
            byte[] made = byClock(in.readAllBytes());
            return defineClass(name, made, 0, made.length);
        } catch (IOException e) {
            throw new ClassNotFoundException(name, e);
        }
    }

    private static byte[] byClock(byte[] read) {
        ClassReader reader = new ClassReader(read);
        ClassWriter writer = new ClassWriter(reader, 0);
        reader.accept(new ClassVisitor(Opcodes.ASM8, writer) {
            @Override public MethodVisitor visitMethod(int access, String name, String type, String signature, String[] thrown) {
                return new MethodVisitor(Opcodes.ASM8, super.visitMethod(access, name, type, signature, thrown)) {
                    @Override public void visitMethodInsn(int code, String owner, String called, String of, boolean isInterface) {
                        boolean isClock = owner.equals("java/lang/System") && called.equals("currentTimeMillis");
                        super.visitMethodInsn(code, isClock ? "Clock" : owner, isClock ? "millis" : called, of, isInterface);
                    }
                };
            }
        }, 0);
        return writer.toByteArray();
    }
}
