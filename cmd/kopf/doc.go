// Command kopf is for people: it shows which operators know of each other, freezes and resumes them.
//
//	go run github.com/kopf-runtime/kopf-runtime/cmd/kopf peers list
//
// Built under the name kubectl-kopf, in a folder of the PATH, it is a plugin: kubectl kopf peers list.
//
// # Flow
//
// The cluster is found as kubectl finds it. The commands read or patch the peering objects, once, and end.
//
// # Guarantees
//
// Only the record of the identity that is given, or of the user, is written or removed.
//
// # Assumptions
//
// The objects exist: operators would not look at those that are created in the meantime.
//
// # Caveats
//
// Whether a peer is alive is judged by the clock of this machine; operators have better means.
//
// # Errors
//
// They say what to do, on the standard error; the exit code is 1 then.
package main
