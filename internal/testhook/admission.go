package testhook

import "github.com/kopf-runtime/kopf-runtime/pkg/webhooks"

// A Host is a manager that knows better than its operators how their admission handlers are served: one of the test kit.
type Host interface {
	// ServeAdmission returns the options for one more operator; without any, its handlers are not served.
	ServeAdmission() (options *webhooks.Options)
}
