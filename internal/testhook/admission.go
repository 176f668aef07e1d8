package testhook

import "github.com/kopf-runtime/kopf-runtime/pkg/webhooks"

// AdmissionHost is a manager that configures how to serve the admission handlers of its operators. The test kit implements it.
type AdmissionHost interface {
	// AdmissionOptions returns the webhook options for the next operator. If it returns nil, the handlers of this operator are not served.
	AdmissionOptions() (options *webhooks.Options)
}
