package testhook

import "github.com/kopf-runtime/kopf-runtime/pkg/webhooks"

// AdmissionHost is a manager that decides how its operators' admission handlers are served. The test kit implements it.
type AdmissionHost interface {
	// AdmissionOptions returns the webhook options for the next operator, or nil if its admission handlers are not served.
	AdmissionOptions() (options *webhooks.Options)
}
