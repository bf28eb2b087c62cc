"""The measuring instrument: standard library only, any Python from 3.8 up.

    python3 client.pyz job.json result.json      (or: python3 -m sweep.bench.client ...)

Runs inside the tool, or packed into one file (`sweep.bench.archive`) on the host. A closed loop
over plain sockets holds exactly `concurrency` requests in flight until all are answered; with a
`rate` an open one sends them as users would, whatever the server makes of it. While it
measures it parses nothing: what arrives is kept as bytes beside the kernel's receive time
(SO_TIMESTAMPNS, which is on CLOCK_REALTIME; send times are taken on that clock too, and a step of
it spoils the trial), and of a response only the end is looked for. So a client that is late does
not make the server look late, and a wrong guess at an end cannot pass: the bytes are read through
afterwards, and a request whose bytes do not add up is not ok.

Job, a JSON object:
  host, port, prefix      the server; `prefix` (may be "") stands before every path
  https                   true: over TLS, the certificate checked as Python does (SSL_CERT_FILE)
  path, headers           where the requests are posted; headers sent with every request
  concurrency             requests in flight; with a rate, the most of them
  rate, seed              requests per second, sent as a Poisson process that `seed` draws; null: a
                          closed loop
  warmup, requests        lists of request bodies (objects); warm-ups are not measured
  flush                   true: before measuring, POST /flush_cache until 200 (the server is idle)
  timeout_s               for everything together
  idle_timeout_s          longest silence within one request, waiting for its first byte included
  stall_timeout_s         longest silence on all connections together (default: timeout_s)
  first_timeout_s         the same before their first byte (default: stall_timeout_s)
  flush_timeout_s         how long the server may take to become idle
  processes               how many measure together (default: one for each 128 in flight, as far as
                          there are cores)
  progress                file to keep one line of JSON in while running, or null

Result, a JSON object:
  error                   null, or {phase, detail, late}: the trial as a whole is spoilt
  started, ended          first send, last end, in seconds of CLOCK_REALTIME; null: nothing sent
  concurrency             as asked
  warmup                  {requests, ok, tokens, error: of the first that failed, ports}, or null
  flush                   HTTP status of the last /flush_cache, null if none was sent
  server_before, _after   what /server_info said around the measurement (`KEPT` only), or null;
                          num_requests_total: of /metrics, null without them
  ports                   of this machine, one for each connection that was made
  requests                one object per request, see `answer.record`
  client                  {cpu: CPU seconds per second while measuring, of the busiest of its
                          `processes`, lag_ms_p99, lag_ms_max: from the kernel's stamp of a read
                          to the moment of reading (null without stamps), reads, stamped: reads with
                          a kernel stamp, resent, python}
"""
