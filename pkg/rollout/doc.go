// Package rollout takes a new version of an operator to few objects first, and to all others in portions.
//
// A handler's revision (see package kopf) says which objects a new version must handle again. With kopf.WithRollout, the operator doesn't
// handle all of them at once:
//
//	kopf.WithRollout(rollout.Options{Canaries: 0.02, Soak: 10 * time.Minute, MaxParallel: 5})
//
// It begins with some canaries, waits for the time to soak, and then handles the others, never more than MaxParallel at a time. If too many
// of them fail, it halts until someone resumes the rollout. Changes that users make to objects never wait for a rollout.
//
// The state of all rollouts is in a ConfigMap in the operator's namespace: a [State] for each kind. The commands kopf rollout status, halt
// and resume read and change it, and so do [Load], [Halt] and [Resume].
package rollout
