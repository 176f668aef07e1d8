// Package eventrecorder is about Kubernetes Events: how many there may be about one object, how long they may be, and how kopf
// posts them.
//
// # Flow
//
// The engine asks the [Quota] for each Event about an object, cuts it to length ([Note], [Word]), and gives it to a recorder: that of the
// manager, or [Core], which posts as kopf does.
//
// # Guarantees
//
// No more than 28 Events are posted about an object in any hour, beside those that the recorder only counts. What is not posted is counted, and told in the next one that is. What is remembered of
// an object goes with it, or when it has its whole quota again and the recorder counts nothing of it: six minutes after the last Event, if there were few.
//
// # Assumptions
//
// The recorder of the manager is that of client-go: it counts Events that differ in nothing but their notes.
//
// # Caveats
//
// Events may be lost: when the API server does not take them, or when the process ends.
//
// # Errors
//
// There are none: what cannot be posted is logged.
package eventrecorder
