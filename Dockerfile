# autotune with its command line; measurements and caches live in the volume /home/autotune.
#   docker build -t autotune .
#   docker run --rm -v autotune:/home/autotune -v "$PWD:/work" autotune run net.onnx
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels \
    && useradd --create-home --uid 1000 autotune && mkdir /work && chown autotune /work
USER autotune
ENV AUTOTUNE_HOME=/home/autotune/store
VOLUME /home/autotune
WORKDIR /work
ENTRYPOINT ["autotune"]
CMD ["--help"]
