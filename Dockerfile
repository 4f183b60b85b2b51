# hindsight in a container. Everything but Spark runs without Java:
#   docker build --tag hindsight .
#   docker run --rm --user "$(id -u)" --volume "$PWD/data_samples:/landing:ro" --volume "$PWD/lake:/lake" \
#       hindsight run-pipeline --landing /landing --lake /lake
# With Java and the Delta jars, for --engine spark and for spark-submit:
#   docker build --tag hindsight:spark --build-arg JAVA=openjdk-17-jre-headless .
FROM python:3.13-slim-bookworm
ARG JAVA=""
RUN if [ -n "$JAVA" ]; then \
        apt-get update && apt-get install --yes --no-install-recommends "$JAVA" procps \
        && rm -rf /var/lib/apt/lists/*; \
    fi

WORKDIR /opt/hindsight
COPY requirements.lock requirements-spark.lock ./
RUN python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement requirements.lock \
        ${JAVA:+--requirement requirements-spark.lock}
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY hindsight ./hindsight
COPY conf ./conf
COPY schemas ./schemas
COPY udfs ./udfs
COPY docs ./docs
COPY data_samples ./data_samples
COPY jobs ./jobs
RUN python -m pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . \
    && rm -rf build ./*.egg-info \
    && if [ -n "$JAVA" ]; then python -m hindsight.jobs.running.delta_jars; fi

RUN useradd --create-home --uid 10001 hindsight
USER 10001
# A user without an entry in /etc/passwd has no home folder, and libraries want to keep small files in one.
ENV HOME=/tmp
WORKDIR /tmp
ENTRYPOINT ["hindsight"]
CMD ["--help"]
