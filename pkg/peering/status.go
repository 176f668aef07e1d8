package peering

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// location identifies a peering object, which may not exist, by its API group and namespace; "" is the cluster.
type location struct{ group, namespace string }

// status is the last known status of one location.
type status struct {
	observed bool                       // whether the records were read, or the object or its kind was found to be missing
	served   bool                       // whether the API server serves the kind
	object   *unstructured.Unstructured // latest observed version; nil if the object does not exist
	decision Decision
	message  string // description of the decision
	err      error  // error of the last read or write of records; nil after a success
}

// state is the resulting state of the operator in one namespace.
type state struct {
	phase   phase
	message string
}

type phase int

const (
	notStarted    phase = iota // the operator waits to become the leader
	notObserved                // records haven't been read everywhere yet
	failing                    // records can't be read or written
	objectMissing              // the mandatory object doesn't exist
	outranked
	tied
	working
	shuttingDown // the operator is shutting down
)

func (s state) isPaused() bool { return s.phase != working }

// computeState returns the state of a namespace. The caller must hold the lock.
func (p *Peering) computeState(namespace string) state {
	switch {
	case p.options.Standalone:
		return state{working, "standalone"}
	case p.done == nil:
		return state{notStarted, "peering is not started: the operator is starting or waits to become the leader"}
	case p.isShuttingDown():
		return state{shuttingDown, "the operator is shutting down"}
	}
	observed, served, exists, peers := true, false, false, 0
	var problems []error
	precedence := state{}
	for _, group := range groups {
		s := p.statuses[location{group, namespace}]
		observed = observed && s.observed
		served = served || s.served
		exists = exists || s.object != nil
		peers += s.decision.AliveCount()
		if s.err != nil {
			problems = append(problems, s.err)
		}
		switch {
		case len(s.decision.Higher) > 0:
			precedence = state{outranked, s.message}
		case s.decision.Paused && precedence.phase != outranked:
			precedence = state{tied, s.message}
		}
	}
	switch err := errors.Join(problems...); {
	case precedence.message != "":
		return precedence
	case err != nil:
		return state{failing, err.Error()}
	case !observed:
		return state{notObserved, "the peers are not observed yet"}
	case exists:
		return state{working, fmt.Sprintf("none of %d live peers has precedence", peers)}
	case p.options.Mandatory:
		return state{objectMissing, p.missingObjectMessage(namespace)}
	case !served:
		return state{working, "the API server does not serve the kind of the peering object, which is not mandatory"}
	}
	return state{working, "the peering object does not exist and is not mandatory"}
}

func (p *Peering) isShuttingDown() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// missingObjectMessage explains how to create the peering object.
func (p *Peering) missingObjectMessage(namespace string) string {
	kind, where := "ClusterKopfPeering", ""
	if namespace != "" {
		kind, where = "KopfPeering", fmt.Sprintf(", namespace: %s", namespace)
	}
	manifest := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s%s}}", v1.GroupVersion, kind, p.options.Name, where)
	for _, group := range groups {
		if p.statuses[location{group, namespace}].served {
			return "the mandatory peering object does not exist: create it with kubectl create -f - from " + manifest
		}
	}
	return fmt.Sprintf("the kind of the mandatory peering object is not served: install the CustomResourceDefinition "+
		"%s.%s, then create %s", plural(namespace != ""), v1.Group, manifest)
}
