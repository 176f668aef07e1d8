package peering

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// A place is where a peering object is, or could be: a group that may serve it, and a namespace; "" is the cluster.
type place struct{ group, namespace string }

// A standing is what is known of a place.
type standing struct {
	looked  bool                       // at least once
	served  bool                       // the API server has the kind
	object  *unstructured.Unstructured // as last seen; nil: it is not there
	verdict Verdict
	why     string // of the verdict
	err     error  // peers cannot be seen, or cannot see us
}

// A state is what the places of a namespace mean for the operator there.
type state struct {
	cause cause
	why   string
}

type cause int

const (
	unstarted cause = iota // stands by for the leader
	looking                // has not looked everywhere yet
	failing                // cannot see its peers, or cannot be seen
	missing                // the mandatory object is not there
	outranked
	tied
	working
	over // shutting down
)

func (s state) paused() bool { return s.cause != working }

// assess tells the state of a namespace. It is called with the lock.
func (p *Peering) assess(namespace string) state {
	switch {
	case p.options.Standalone:
		return state{working, "standalone"}
	case p.done == nil:
		return state{unstarted, "peering has not begun: the operator stands by, or is starting"}
	case p.ended():
		return state{over, "the operator is shutting down"}
	}
	looked, there, peers := true, false, 0
	var problems []error
	outranking := state{}
	for _, group := range groups {
		s := p.standings[place{group, namespace}]
		looked = looked && s.looked
		there = there || s.object != nil
		peers += s.verdict.Live()
		if s.err != nil {
			problems = append(problems, s.err)
		}
		switch {
		case len(s.verdict.Higher) > 0:
			outranking = state{outranked, s.why}
		case s.verdict.Paused && outranking.cause != outranked:
			outranking = state{tied, s.why}
		}
	}
	switch err := errors.Join(problems...); {
	case outranking.why != "":
		return outranking
	case err != nil:
		return state{failing, err.Error()}
	case !looked:
		return state{looking, "the peers have not been looked at yet"}
	case there:
		return state{working, fmt.Sprintf("no peer has precedence, of %d that are alive", peers)}
	case p.options.Mandatory:
		return state{missing, p.absence(namespace)}
	}
	return state{working, "there is no peering object, and none is needed"}
}

func (p *Peering) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// absence says what to create.
func (p *Peering) absence(namespace string) string {
	kind, where := "ClusterKopfPeering", ""
	if namespace != "" {
		kind, where = "KopfPeering", fmt.Sprintf(", namespace: %s", namespace)
	}
	manifest := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s%s}}", v1.GroupVersion, kind, p.options.Name, where)
	for _, group := range groups {
		if p.standings[place{group, namespace}].served {
			return "the peering object is missing and mandatory: create it with kubectl create -f -, from " + manifest
		}
	}
	return fmt.Sprintf("the peering object is mandatory, and its kind is not served: install the CustomResourceDefinition "+
		"%s.%s, then create %s", plural(namespace != ""), v1.Group, manifest)
}
