// Package events has the options for the Kubernetes Events that an operator posts: see kopf.WithEvents.
package events
