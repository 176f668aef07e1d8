// Package conditions reads and writes status.conditions of any object, in any reconciler: of custom kinds with a
// Go type or none, of built-in kinds whose conditions have types of their own, of kinds that keep them elsewhere or
// in another shape. It is what package kopf stands on, and of use without it:
//
//	err := conditions.Write(ctx, r.Client, db, func(s *conditions.Set) {
//		s.Declare("Ready", "Synced", "Degraded")
//		s.True("Synced", "UpToDate", "")
//		s.MirrorFrom(statefulSet, "Available")
//		s.Summarize(conditions.Root{Of: []string{"Synced", "Available"}, Not: []string{"Degraded"}})
//	})
//
// # Flow
//
// [For] finds the conditions of an object and returns them as a [Set]: by accessors, in status.conditions, or where
// options say. What is set, is set in the object at once. [Write] makes a Set, has it changed, and sends one patch
// of the status if that made a difference, again after a conflict. Whoever writes the status anyway takes For, looks at
// [Set.Err] and [Set.Changed], and writes.
//
// [Is] and [Transition] look at objects without changing them, for filters and for what reacts to others' conditions.
// An [Error] carries a condition out of a function that fails, and [Set.Carry] takes it over. Package
// conditionstest has matchers for gomega.
//
// # Guarantees
//
// Conditions are a map by type: there is one of each, and setting it changes no other one. Those of others stay as
// they are and where they are; in unstructured objects byte for byte, with null entries, unknown fields, and what is
// no condition at all. New ones are added at the end.
//
// lastTransitionTime changes with the status only, and is in whole seconds. observedGeneration never falls. What says
// the same again changes nothing, so nothing is written. What is written, the API accepts: reasons are made valid,
// messages are cut at 32768 characters, types are checked.
//
// Null or missing conditions, and a null or missing status, are no conditions.
//
// # Assumptions
//
// The object is a copy of your own, not that of a cache. A Set is made anew after each read and write. Elements of
// other Go types are structs with the names of [metav1.Condition] in JSON: a type and a status, the rest as far as it
// is there, and lastUpdateTime, which tells the last change. Elements of a map have no type.
//
// # Caveats
//
// In a Go type, the unknown fields of others' conditions are gone when the object is read, and so they are when the
// list is written; read kinds of others as unstructured. A schema that drops the reason or the message makes each pass
// a change; use an adapter that does not have them. Several conditions of one type are not made one: the first counts.
// Conditions in a map have no order but that of their types.
//
// [Set.MirrorFrom] tells what the child says, also when the child has not seen its newest generation yet.
//
// # Errors
//
// [For] tells why an object cannot have conditions. Mistakes in what is set are collected: the condition is not set,
// [Set.Err] tells what to do, and Write writes nothing. See [Write] for those of the server.
package conditions
