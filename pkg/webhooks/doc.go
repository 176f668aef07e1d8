// Package webhooks serves admission webhooks whose handlers are Go functions. It can also write the webhook configurations and create the
// certificates. Package kopf is built on it, but you can use it in any operator:
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
// # Concepts
//
// A [Handler] receives a [Request], and returns nil to allow it or an error to deny it. [Validating] and [Mutating] combine a handler, one
// kind and options into a [Hook]. A [Server] serves hooks for any number of kinds on the manager's webhook server. [For] is the short form for one
// kind. Each hook has its own path and one entry in a webhook configuration.
//
// The server decodes the objects of each admission review into the hook's Go type and calls the handler. It returns what a mutating handler
// changes in the object as a JSON patch.
//
// With [Managed] configurations, the leader writes the webhook configurations with server-side apply, as soon as its own webhook server
// answers. It writes them again when another client changes the operator's entries, when the CRD of a hook is created, or when the CAs
// change. With [SelfManaged] certificates, the leader also maintains a Secret, which all replicas watch.
//
// # Guarantees
//
//   - Each replica answers reviews, even if it isn't the leader or the operator is paused.
//   - The server calls a handler at most once for each review, and treats a panic as an error.
//   - A patch contains only the handler's changes, even if the Go type lacks fields of the object. Numbers aren't rounded.
//   - The server logs the details of unexpected handler errors, but doesn't return them to the client.
//   - The server doesn't create empty configurations. With [Managed] configurations, it doesn't change entries of other field owners. With
//     [Injected] configurations, it changes only the caBundle of its hooks.
//   - With [SelfManaged] certificates, API servers trust a new CA before the webhook server uses a certificate signed by it, and trust the
//     old CA until it expires. So no request fails because of a rotation, even after a user deletes the Secret of a running operator.
//   - With [Files] and a CAFile, CAs that are removed from the file stay trusted for 5 more minutes. The program that writes the files must
//     add a new CA before it replaces the certificate.
//
// # Assumptions
//
// The manager uses the default webhook server of controller-runtime (webhook.NewServer), not a custom implementation. Handlers are fast,
// because the API server and the user wait for them. Handlers with side effects declare [SideEffects] and check DryRun. The clocks of the
// replicas differ by less than [SelfManaged].PropagationDelay.
//
// # Caveats
//
// The API server evaluates operations, namespace selectors and CEL expressions. The webhook server doesn't check them again when it
// receives a request.
//
// If several hooks have the same id, their paths and names also contain "validate" or "mutate" and the kind of the object. So adding a
// second hook with the same id changes the path and the name of the first one.
//
// With managed configurations and without leader election, replicas of two versions overwrite each other's entries. Objects that are
// created within 2 seconds after their CRD can miss the review, unless the hook has a [Plural].
//
// # Errors
//
// [Server.Check] returns the errors in options and hooks. [Server.SetupWithManager] also returns conflicts between two servers of one
// manager. If permissions are missing at startup, the manager stops with an error that names the missing rule. The server logs all other
// failures to write configurations or certificates, and retries. It answers malformed reviews, and reviews of a different kind, with an
// HTTP error, so that the failure policy applies.
//
// The controller-runtime metric controller_runtime_webhook_requests_total counts requests by path, and
// controller_runtime_webhook_latency_seconds measures their latency by path. controller_runtime_webhook_panics_total counts panics.
package webhooks
