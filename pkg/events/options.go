package events

import "time"

// Options define which Events an operator posts, how many, and in which form. The zero value means the defaults.
type Options struct {
	// Level defines which Events the operator posts by itself. Handlers can post their own with Request.Eventf at any level. Default:
	// [Transitions].
	//
	// Equivalent in kopf: settings.posting.enabled, settings.posting.level.
	Level Level

	// LogLines also posts the log lines of handlers as Events about the object, so handlers must not log confidential values. The reason is
	// "Logging", the action is the handler's id, and the note contains the id, the message and its values. Info lines at V(0) become Normal
	// Events, and errors become Warnings. Only lines of the logger in the handler's context are posted, not the operator's own.
	//
	// Equivalent in kopf: settings.posting.loggers=True.
	LogLines bool

	// Burst is the number of Events that the operator posts about an object at once, and Interval the time until it may post one more. A
	// fifth of Burst is reserved for Warnings and automatic Events, and another fifth for automatic Events about failures, recoveries and
	// problems of the operator. So a handler's Normal Events can't displace Warnings, and handlers' Events can't displace HandlerFailed.
	//
	// Events beyond the quota are dropped. The operator logs the first one for each object at level 0, and counts all of them in the metric
	// kopf_unposted_events_total. The next new Event says how many were dropped. Default: 50 Events, and one more every five minutes.
	Burst    int
	Interval time.Duration

	// KopfForm posts all Events in kopf's form, including those of Request.Eventf. Use it if you have clients that select
	// reportingComponent=kopf. The Events go to the core v1 API, with the action "Action?". A repeated Event becomes a new object instead
	// of increasing a count. The operator needs permission to create events of the core group. Nil means that the manager's Event recorder
	// posts them to events.k8s.io.
	KopfForm *KopfForm
}

// A Level defines which Events an operator posts by itself.
type Level int

const (
	// Transitions posts an Event when a handler fails permanently, and when a cause handler succeeds after failed attempts. For reconcile
	// handlers, daemons and timers, it posts only the first permanent failure and the first success after it. A failed attempt that will be
	// retried isn't a transition, so a failing handler doesn't overload the API server with Events.
	Transitions Level = iota
	// Off posts no Events except those of handlers.
	Off
	// Steps posts an Event for each attempt of a cause handler, a reconcile handler, a daemon or a timer.
	Steps
)

// KopfForm contains the names used in Events in kopf's form.
type KopfForm struct {
	// Component is the name of the reporting controller and of the source. Default: "kopf". Equivalent in kopf:
	// settings.posting.reporting_component.
	Component string
	// Instance is the reporting instance. Default: "dev". Equivalent in kopf: settings.posting.reporting_instance.
	Instance string
	// Prefix starts the names of the Events. Default: "kopf-event-". Equivalent in kopf: settings.posting.event_name_prefix.
	Prefix string
}
