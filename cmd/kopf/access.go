package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// access contains the flags that select a cluster and its peering objects.
type access struct {
	cluster
	name       string
	namespaces []string
	all        bool
	flags      *pflag.FlagSet
}

func (a *access) bind(fs *pflag.FlagSet) {
	a.flags = fs
	a.cluster.bind(fs)
	fs.StringVarP(&a.name, "peering", "P", peering.DefaultName, "the name of the peering object")
	fs.StringSliceVarP(&a.namespaces, "namespace", "n", nil, `use the KopfPeering of this namespace instead of the ClusterKopfPeering; repeatable; may contain patterns: "team-*"`)
	fs.BoolVarP(&a.all, "all-namespaces", "A", false, "use the ClusterKopfPeering (default)")
}

func (a *access) target() (peering.Target, error) {
	switch {
	case a.all && len(a.namespaces) > 0:
		return peering.Target{}, fmt.Errorf("--all-namespaces and --namespace are mutually exclusive: remove one")
	case a.name == "":
		return peering.Target{}, fmt.Errorf("--peering is empty: set a name, or remove the flag to use %q", peering.DefaultName)
	case a.flags.Changed("namespace") && (len(a.namespaces) == 0 || slices.Contains(a.namespaces, "")):
		return peering.Target{}, fmt.Errorf("--namespace is empty: set a name, or remove the flag to use the ClusterKopfPeering")
	}
	return peering.Target{Name: a.name, Namespaces: a.namespaces}, nil
}

func (a *access) client() (*peering.Client, error) {
	config, err := a.config().ClientConfig()
	if err != nil {
		return nil, accessError(err)
	}
	return peering.NewClient(config, nil)
}
