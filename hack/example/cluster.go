package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// connect gets a client for what the samples need.
func (g *stage) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", g.pinned())
	if err != nil {
		return err
	}
	config.UserAgent = "kopf-runtime-example"
	g.client, err = client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("the cluster at %s does not answer: %w", config.Host, err)
	}
	return nil
}

// makeCluster starts a control plane: with controllers if they are built, as children go with their parents then.
func (g *stage) makeCluster(ctx context.Context) error {
	about := "It has the garbage collector, and the controllers of deployments and namespaces."
	if err := g.screen.During(ctx, startLimit, "Starting etcd and kube-apiserver", "about 10 seconds", func(ctx context.Context) (err error) {
		g.cp, err = controlplane.StartContext(ctx, controlplane.Options{Controllers: true})
		if errors.Is(err, controlplane.ErrNoControllers) {
			g.cp, err = controlplane.StartContext(ctx, controlplane.Options{})
			about = "It has no controllers: children stay when their parents go. ('make controller-manager' builds what is missing.)"
		}
		return err
	}); err != nil {
		return err
	}
	g.access = g.pinned()
	g.screen.Say("\nThe cluster is a control plane of this example's own, on this machine: " + g.cp.Config.Host +
		"\n" + about + " No pod ever runs there. Your own KUBECONFIG is not looked at.")
	return g.cp.WriteKubeconfig(g.pinned())
}

// takeCluster takes that of kubectl, and keeps to it: the operator is given a file that knows no other.
func (g *stage) takeCluster() error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: g.context})
	config, err := loader.RawConfig()
	if err != nil {
		return err
	}
	if g.context != "" {
		config.CurrentContext = g.context
	}
	files := strings.Join(rules.GetLoadingPrecedence(), ":")
	if config.Contexts[config.CurrentContext] == nil {
		return fmt.Errorf("%w: there is no context %q in %s: set KUBECONFIG and CONTEXT so that 'kubectl cluster-info' shows your cluster, "+
			"or leave out CLUSTER=%s", errUsage, config.CurrentContext, files, kubeconfig)
	}
	if err := clientcmdapi.MinifyConfig(&config); err != nil {
		return err
	}
	if err := clientcmdapi.FlattenConfig(&config); err != nil {
		return err
	}
	if err := clientcmd.WriteToFile(config, g.pinned()); err != nil {
		return err
	}
	g.access = files
	if g.context != "" {
		g.access = g.pinned() // in the files, another one is the current one
	}
	server := config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server
	g.screen.Say(fmt.Sprintf("The cluster is that of kubectl, as you have asked for: %s, the context %q in %s.\n"+
		"What is created there stays when this ends: see \"Clean up\" in examples/%s/README.md.", server, config.CurrentContext, files, g.name))
	return nil
}
