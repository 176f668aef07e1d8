// Package children manages the child objects of an owner. req.Adopt in package kopf is built on it, but you can use it in any reconciler:
//
//	owner := children.Of(db, r.Client, children.FieldOwner("database-operator"))
//	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: children.Name(db, "primary")}, Spec: ...}
//	results, err := owner.Apply(ctx, service, deployment)
//
// # Concepts
//
// [Of] creates an [Owner] with options. [Owner.Adopt] changes children in memory: it sets the owner reference, a name or a name prefix, the
// namespace, and the labels, including those of pod templates. The other methods that change children set only one of these. [Owner.Apply]
// adopts children and applies them to the API server. [Owner.Create] adopts children and creates missing ones. [Owner.Set] returns a [Set],
// a named group of children. A Set can also delete children that are no longer wanted, apply children in order, and report their readiness.
// [Name] returns deterministic names.
//
// # Guarantees
//
//   - Adopt validates all children before it changes any child. Apply and Create validate all children before the first write.
//   - Existing names, namespaces and labels are kept, unless [Forced] is set.
//   - Apply takes over an existing object that has a different owner, or none, only with [TakeOver]. If it has a different controller, you
//     also need Controller(false).
//   - Apply reads each child once, from the cache if the client has one, and writes only if something differs. Before it creates a child,
//     it also sends a dry run to the API server.
//   - A set deletes only objects that have the labels of the set and a reference to the owner.
//   - Apply keeps fields of other field managers, resets changes to its own fields, and removes fields that the child no longer sets.
//
// # Requirements
//
// The owner must come from the API server, because its uid is needed. Build new children for each call instead of changing objects from the
// server, because Apply takes ownership of every field that is set. Go types for Apply must omit empty fields in JSON (omitempty).
// Otherwise Apply takes ownership of zero values, too.
//
// # Caveats
//
//   - If the API server doesn't know a kind yet, its scope isn't checked.
//   - BlockOwnerDeletion may need permission to update the owner's finalizers.
//   - A new label on the owner changes pod templates and so restarts the pods, unless you use [PlainTemplates]. The API server rejects
//     changes to immutable templates, such as the templates of jobs.
//   - Some kinds allow fewer than the 63 characters of a [Name].
//   - If another client creates the object between the dry run and the apply, Apply takes it over. Create doesn't have this gap.
//   - The process remembers the last 512 results of Apply, each for up to one minute, until the cache shows it. After a restart, or with
//     more children, a stale cache can cost an extra request that changes nothing.
//   - Apply doesn't detect changes that a mutating webhook makes to applied fields during the apply, because the field owner still owns
//     them.
//   - If the cache strips managedFields, Apply compares values instead. It then writes every time if the server normalizes a value, such as
//     a quantity.
//   - Kubernetes copies the annotation with the applied hash from deployments to their replica sets.
//
// # Errors
//
// Adopt, Apply and Create return an error if an owner or child has no kind, or if the owner has no uid. They reject a child in a different
// namespace than the owner, and a namespaced child without a namespace if the owner is cluster-scoped. Apply and Create also reject a child
// without a name. For a child of another controller, the error wraps *controllerutil.AlreadyOwnedError. Errors of the API server are
// wrapped.
package children
