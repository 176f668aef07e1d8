// Package webhooks calls functions when objects are written through the API server, before they are stored: some say
// no, some fill in. Certificates and webhook configurations look after themselves if they are told to. It is
// what package kopf stands on, and of use without it, beside any reconciler:
//
//	err := webhooks.For(mgr, &v1.Database{}).
//		Validate("size", func(ctx context.Context, req *webhooks.Request[*v1.Database]) error {
//			if req.Object.Spec.Size > 100 {
//				return webhooks.Deny(http.StatusForbidden, metav1.StatusReasonForbidden, "too big")
//			}
//			return nil
//		}).
//		Mutate("defaults", defaults).
//		Complete()
//
// # Flow
//
// [Validating] and [Mutating] make a [Hook] of a [Handler] for one kind; a [Server] takes hooks of any kinds;
// [For] is the short form for one kind. Each hook has a path on the manager's webhook server, and one entry in a webhook
// configuration. A review that comes to the path is decoded into the kind of the hook, the handler is called
// with a [Request], and what it has returned becomes the answer. What a mutating handler has changed in the object is
// made a JSON patch.
//
// If [Options] say so, the leader writes the configurations by server-side apply, as soon as it answers
// itself, and again when somebody has changed its entries, when a CRD appears, and when the CAs change. With
// [SelfManaged] certificates, it also keeps a Secret, which all replicas watch.
//
// # Guarantees
//
// Each replica answers, leader or not, paused or not. A handler is called at most once for a review, and
// a panic is an error. A patch has only what the handler has changed, however little the Go type knows of the
// object; numbers are not rounded. Faults of handlers are in the log, not in the answers.
//
// Entries of others in the configurations are not touched; a configuration is never created empty. With
// [SelfManaged] certificates, a new CA is trusted before its certificate is used, and an old one until it has expired, so a rotation fails
// no call; also when their Secret is lost. Of [Files], CAs that go are trusted for some minutes more; that a new one is there before its certificate
// is the business of whoever writes the files.
//
// # Assumptions
//
// The manager's webhook server is that of controller-runtime. Handlers are quick: the API server and the user wait.
// Handlers with effects of their own declare [SideEffects] and look at DryRun. Clocks of the replicas differ by less
// than [SelfManaged].Settle.
//
// # Caveats
//
// What keeps the API server from calling (operations, subresources, selectors, CEL) is the business of the
// configuration: a path serves all reviews of its kind. Hooks share their names with none of the same kind; of ids that several
// kinds have, path and name are made with the kind, so adding the second one changes those of the first. With managed
// configurations and no leader election, replicas of two versions write their entries in turns. Objects that are written before a
// kind's CRD was noticed (2 seconds) are not judged, unless there is a [Plural].
//
// # Errors
//
// [Server.Validate] tells all mistakes in options and hooks, and what to do; [Server.SetupWithManager] also what two servers of one
// manager cannot share. Lack of permissions at the start ends the manager, and tells the rule; other failures to write configurations or certificates are logged and tried again. Reviews that are malformed or
// for another kind get an HTTP error, so that the failure policy decides; all others are answered. Requests are
// in controller-runtime's metrics controller_runtime_webhook_requests_total and _latency_seconds, by path, and panics in
// controller_runtime_webhook_panics_total.
package webhooks
