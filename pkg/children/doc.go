// Package children makes objects the children of another one, and keeps them on the server as they should be. It
// is what req.Adopt of package kopf stands on, and of use without it, in any reconciler:
//
//	owner := children.Of(db, r.Client, children.FieldOwner("database-operator"))
//	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: children.Name(db, "primary")}, Spec: ...}
//	results, err := owner.Apply(ctx, service, deployment)
//
// # Flow
//
// [Of] names the owner and the choices. [Owner.Adopt] gives children in memory what makes them children: the
// reference, a name or a prefix for one, the namespace, the labels, those of known templates of pods too; each part can
// be had alone. [Owner.Apply] adopts and keeps children as they are here; [Owner.Create] adopts and creates
// what is missing. [Name] makes names that can be found again.
//
// # Guarantees
//
// All children are looked at first: if the owner cannot have one, none is changed, and nothing is written. What a
// child has, it keeps, unless [Forced] says otherwise. A child of another owner is never taken, and what belongs to nobody
// only with [TakeOver], be it in the cache or not.
//
// Apply writes when something differs and not otherwise: one request to read for each child, from the cache if the
// client has one, and none to write if it is as it was applied. What others have added stays; what others have changed
// of it is set back; what is not in the child any more is removed. A child that is not there costs one more request, a dry run, which
// asks the server itself.
//
// # Assumptions
//
// The owner is as the server has it, with its uid. Children are what they should be, made anew for each call, not
// what was read from the server: each field that is set is owned. A Go type for Apply leaves zero values out in
// JSON (omitempty), or means them.
//
// # Caveats
//
// Where the server does not know a kind yet, its scope is not known and not checked. BlockOwnerDeletion may need
// the permission to update the finalizers of the owner. A new label of the owner goes into templates of pods
// and restarts the pods; see [PlainTemplates]. Labels of templates that cannot be changed, those of jobs, are for
// the creation; an apply with others is refused by the server. Some kinds allow less than the 63 characters of a [Name].
//
// Between that question and the write, somebody else may create an object of the name: then it is taken over. [Owner.Create] has no such gap.
//
// Apply remembers the last 512 applies of the process for a minute, until the cache shows them. After a restart, or beyond that number, a
// cache that lags may cost a request that changes nothing. While a cache does not show a new child, each apply is a dry run. Where a webhook changes what is applied, each apply is a
// write. If managedFields are stripped from the cache, values are compared, and each apply is a write where
// the server writes a value in another form, such as a quantity. The hash that Apply leaves on a deployment is copied
// to its replica sets by Kubernetes.
//
// # Errors
//
// Mistakes are told with what to do: an owner or a child without a kind, an owner without a uid, a child in another
// namespace or without one, a child without a name for Apply and Create. A child of another controller is an
// error that wraps *controllerutil.AlreadyOwnedError. Those of the server are wrapped.
package children
