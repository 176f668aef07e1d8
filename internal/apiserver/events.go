package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
)

// On a real server, the Events of the core group and of events.k8s.io are the same objects. Here, each Event is stored in both forms, and
// every change of one changes the other.
var (
	coreEvents = corev1.SchemeGroupVersion.WithResource("events")
	newEvents  = eventsv1.SchemeGroupVersion.WithResource("events")
)

// eventFieldNames maps the fields of core Events to those of events.k8s.io. The other fields have the same names.
var eventFieldNames = map[string]string{
	"message": "note", "involvedObject": "regarding", "reportingComponent": "reportingController", "source": "deprecatedSource",
	"firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp", "count": "deprecatedCount",
}

// otherForm returns an Event's key and content in the other group, or false if the object is not an Event. A nil object stays nil.
func otherForm(k key, obj object) (key, object, bool) {
	names := eventFieldNames
	apiVersion := eventsv1.SchemeGroupVersion.String()
	switch k.gvr {
	case coreEvents:
		k.gvr = newEvents
	case newEvents:
		k.gvr, apiVersion = coreEvents, corev1.SchemeGroupVersion.String()
		names = map[string]string{}
		for core, other := range eventFieldNames {
			names[other] = core
		}
	default:
		return key{}, nil, false
	}
	if obj == nil {
		return k, nil, true
	}
	out := object{}
	for name, value := range obj {
		if other := names[name]; other != "" {
			name = other
		}
		out[name] = value
	}
	out["apiVersion"] = apiVersion
	return k, out, true
}
