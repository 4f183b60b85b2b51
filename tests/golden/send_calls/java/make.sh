#!/bin/sh
# Vectors of one release: sh make.sh RELEASE CLASSPATH FIRST_SEED COUNT. CLASSPATH: of rocketmq-client and all it needs.
set -e
built=$(mktemp -d)
cd "$(dirname "$0")"
asm=java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED
javac -nowarn -Xlint:none -cp "$2" -d "$built/client" Clock.java SendCalls.java
javac -nowarn --add-exports "$asm" -d "$built/run" ByClock.java
java --add-exports "$asm" --add-opens java.base/java.nio=ALL-UNNAMED -Dio.netty.noUnsafe=true "-Duser.home=$built" -cp "$built/run" ByClock "$built/client:$2" "$1" "$3" "$4"
