// Command kopf inspects operators and the state that they store on objects. It lists peers, pauses and resumes them, shows the progress of handlers,
// controls rollouts of new revisions, removes finalizers and annotations before an uninstall, and verifies permissions.
//
//	go tool kopf peers list
//	go tool kopf objects list databases.example.com -A
//	go tool kopf objects check databases.example.com -A --crd config/crd/bases/example.com_databases.yaml
//	go tool kopf objects release databases.example.com -A --yes
//	go tool kopf watch databases.example.com -A
//	go tool kopf rollout status -n databases-system
//	go tool kopf rbac verify config/rbac/rbac.yaml
//
// If the binary is named kubectl-kopf and is in the PATH, it is a plugin of kubectl: kubectl kopf peers list.
//
// "kopf completion" prints completions for bash, zsh, fish and PowerShell. kubectl completes the commands of the plugin if
// hack/release/kubectl_complete-kopf is also in the PATH.
//
// The command finds the cluster in the same way as kubectl. "kopf peers" reads missing flags from the environment variables of
// kopf, such as KOPF_FREEZE_PRIORITY. Each command except "watch" and "page" runs once and exits. If it fails, the command
// prints the error to standard error and exits with code 1.
//
// "peers freeze" and "peers resume" change only the record of one identity. The default is the identity of the user. "peers
// list", "objects list", "objects check", "watch", "why", "page", "rollout status" and "rbac verify" do not change objects. "objects release"
// writes nothing without --yes. With --yes, it removes only the finalizer and the annotations that it prints.
//
// # Caveats
//
// The command uses the wall clock of this machine to decide whether a peer is alive and whether a handler is due. To decide
// whether a peer is alive, operators use a monotonic clock instead.
//
// "objects list" does not read the code of the operator. It compares whole objects, as operators for unstructured kinds do. Pass the ids of
// the handlers with --handler. "objects release" does not remove records and baselines in the status.
package main
