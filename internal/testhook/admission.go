package testhook

import "github.com/kopf-runtime/kopf-runtime/pkg/webhooks"

// AdmissionHost is a manager that decides how the admission handlers of its operators are served. The test kit implements it.
type AdmissionHost interface {
	// AdmissionOptions returns the webhook options for the next operator. If it returns nil, the handlers of this operator are not served.
	AdmissionOptions() (options *webhooks.Options)
}
