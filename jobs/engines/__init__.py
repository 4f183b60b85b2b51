"""The two ways to run: on this machine without a JVM, and on Spark. What differs between them is here."""
