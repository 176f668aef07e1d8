// Package conditions reads and writes status.conditions of Kubernetes objects. It supports Go types and unstructured objects, built-in
// kinds with their own condition types, and conditions in other fields or shapes. Package kopf is built on it, but you can use it in any
// reconciler:
//
//	err := conditions.Write(ctx, r.Client, db, func(s *conditions.Set) {
//		s.Declare("Ready", "Synced", "Degraded")
//		s.True("Synced", "UpToDate", "")
//		s.MirrorFrom(statefulSet, "Available")
//		s.Summarize(conditions.Root{Of: []string{"Synced", "Available"}, Not: []string{"Degraded"}})
//	})
//
// # Concepts
//
// [For] finds the conditions of an object and returns them as a [Set], whose methods change the object in memory. [Write] creates a Set,
// calls your function to change it, and patches the status if the conditions have changed. It retries after conflicts. To write conditions
// together with other changes to the status, use [For], check [Set.Err] and [Set.Changed], and write the object yourself.
//
// [Is] and [Transition] inspect objects without changing them, for example in filters. An [Error] is a condition as an error value, and
// [Set.SetFromError] sets it. Package conditionstest has matchers for gomega.
//
// # Guarantees
//
//   - A Set never adds a second condition of a type. Setting a condition doesn't change the others, and new ones are added at the end. In
//     unstructured objects, unknown fields and invalid entries stay unchanged.
//   - lastTransitionTime changes only with the status and has a resolution of one second. observedGeneration never decreases.
//   - Setting equal values causes no write.
//   - Reasons are converted to a valid form, messages are cut at 32768 characters, and types are validated. So all written conditions
//     satisfy the rules of [metav1.Condition].
//   - If the status or the conditions are null or missing, the Set is empty.
//
// # Requirements
//
// The object must be a copy, not one that a cache owns. Create a new Set after each read or write. Conditions with their own Go type must
// be structs with the JSON names of [metav1.Condition]. The fields type and status are required, the others are optional, and
// lastUpdateTime is supported. Elements of a map need no type field.
//
// # Caveats
//
//   - Decoding into a Go type drops fields that the type lacks, even in other controllers' conditions. So read such kinds as unstructured.
//   - If the schema drops the reason or the message, every reconcile writes the object. Use an adapter that omits them.
//   - If several conditions have the same type, the Set uses the first one. Conditions in a map are sorted by type.
//   - [Set.MirrorFrom] copies the conditions of the child even if they don't reflect its latest generation yet.
//
// # Errors
//
// [For] returns an error if the object has no place for conditions. A Set doesn't store invalid conditions. [Set.Err] returns their errors,
// and Write then writes nothing. See [Write] for errors of the API server.
package conditions
