#!/bin/bash
# Vectors of one release: sh make.sh RELEASE CLASSPATH FIRST_SEED COUNT; one line a case.
set -e
folder=$(mktemp -d)
protocol=org.apache.rocketmq.remoting.protocol
stats=0
case $1 in 5.0.0*) protocol=org.apache.rocketmq.common.protocol stats="(org.apache.rocketmq.store.stats.BrokerStatsManager) null";; esac
sed "s/@PROTOCOL@/$protocol/; s/@STATS@/$stats/" "$(dirname "$0")/Assign.java" > "$folder/Assign.java"
javac -nowarn -d "$folder" -cp "$2" "$folder/Assign.java" 2> "$folder/javac.log" || { cat "$folder/javac.log" >&2; exit 1; }
java -cp "$folder:$2" Assign "$1" "$3" "$4" | grep "^{"
rm -r "$folder"
