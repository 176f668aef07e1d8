// Package logs calls a function for each line in the logs of pods. [Lines] returns a daemon for package kopf:
//
//	pods := kopf.For(&corev1.Pod{}).
//		Daemon("oom", logs.Lines(clientset, onLine, logs.Match(regexp.MustCompile(`out of memory`))), kopf.Label("app"))
//	err := kopf.SetupWithManager(mgr, pods, logs.Needs())
//
// # Concepts
//
// The daemon follows the logs of all containers of a pod: init containers, containers and ephemeral containers. It waits for containers that have
// not started, and reads the log of the previous instance after a restart of a container. The daemon keeps its position in each log in memory, and
// stores the positions in a bookmark on the pod. The bookmark is the annotation "kopf-runtime.dev/logs.<id of the handler>". It does not belong to the
// essence, so a write of the bookmark is not an update.
//
// # Guarantees
//
//   - In one process, the daemon handles each line exactly once, even if a stream ends or breaks at any byte. A line is handled when the function has
//     returned nil for the line, or when the expression of [Match] does not match the line.
//   - After a restart of the process, the daemon continues from the bookmark. It handles all lines after the bookmark again.
//   - The lines of a container are handled in their order. The function is called for one line of a pod at a time.
//   - While the function runs, the daemon reads at most one further line of each other container. The connections buffer more data.
//
// # Caveats
//
//   - The kubelet serves only the current log file of the running instance and of the previous instance of a container. The daemon cannot read lines
//     that were rotated or removed before.
//   - The daemon identifies lines by their timestamps. If the clock of a node is set back, lines can be repeated. If the stream also breaks at that
//     time, lines can be lost.
//   - The finalizer stays on a deleted pod until its containers have stopped and their logs are read. It stays for at most five seconds longer than
//     the grace period of the pod.
//
// # Errors
//
// An error of the function is the error of the daemon. The policy of the daemon applies, for example [kopf.Backoff]. The next attempt
// begins with the same line. After a permanent error, this process reads no more logs of the pod. The daemon logs errors of the API server and the
// kubelet, and retries the request after a delay between 200 milliseconds and 30 seconds. Invalid options are permanent errors of the daemon.
package logs
