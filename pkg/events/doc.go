// Package events has the options for the Kubernetes Events that an operator posts. Pass them to kopf.WithEvents.
package events
