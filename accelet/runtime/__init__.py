"""Plumbing that every process needs: settings, logs, probes, supervision.

It may import nothing of this project.

foreign/ =  Texts that others wrote, read so that none of them can harm the reader.
backoff =   How long to wait before the next try.
blocking    How long the event loop is held up, by how late a task wakes; and what keeps the collector from
            it.
clock       Time, so that tests can have their own.
excerpts =  What somebody else wrote, fit to stand in a sentence of ours: short, printable, in quotes.
failing     What fails again and again is said once, and said once more when it ends.
logs        Structured logs: one JSON object a line, with a constant message and its values as keys.
probes      The one HTTP port: /healthz, /readyz and /metrics, and pages for the own pod.
run         Runs a process's main coroutine: signals, exit codes, and an end that nothing can hold up.
settings =  Reads YAML into typed values and reports every mistake at once, each with its line.
statefile   Files that are whole or not there, whatever ends the process or the machine in between.
supervise   Starts a task again when it fails by a fault of its own.
tasks       Tasks side by side, out of which one error comes: the first, as itself.
threads     Threads for blocking calls, which never hold up the end of the process.
waiting     Waits that end: for a hint or a time, and until something works.
watch       Wakes the event loop when a directory changes.
webserver   A small HTTP server that strangers cannot exhaust: one thread, and everything about a connection
            bounded.
"""
