// Package rollout limits how many objects at a time are handled for newer revisions of their handlers.
//
// A [Part] has one group for each kind. A group decides which object is next from what it knows about all objects, which follows from their
// annotations, so that a restart or another leader continues where the last one has stopped. Only halts are stored elsewhere: in a
// ConfigMap, see package pkg/rollout.
package rollout
