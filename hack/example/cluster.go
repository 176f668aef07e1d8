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

// connect creates a client for CRDs and samples.
func (g *stage) connect(context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", g.pinned())
	if err != nil {
		return err
	}
	config.UserAgent = "kopf-runtime-example"
	g.client, err = client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to the cluster at %s: %w", config.Host, err)
	}
	return nil
}

// makeCluster starts a control plane, with controllers if kube-controller-manager is built.
func (g *stage) makeCluster(ctx context.Context) error {
	options := controlplane.Options{Controllers: true, Audit: g.demo}
	about := "It runs the garbage collector and the controllers of Deployments and namespaces."
	if err := g.screen.During(ctx, startLimit, "Starting etcd and kube-apiserver", "about 10 seconds", func(ctx context.Context) (err error) {
		g.cp, err = controlplane.StartContext(ctx, options)
		if errors.Is(err, controlplane.ErrNoControllers) {
			options.Controllers = false
			g.cp, err = controlplane.StartContext(ctx, options)
			about = "It runs no controllers, so children are not deleted with their owners. To build them, run make controller-manager."
		}
		return err
	}); err != nil {
		return err
	}
	g.access, g.audit = g.pinned(), g.cp.AuditSinceStart()
	g.screen.Say("\nThe cluster is a control plane on this machine, only for this example: " + g.cp.Config.Host +
		"\n" + about + " Pods never run. Your KUBECONFIG is not used.")
	return g.cp.WriteKubeconfig(g.pinned())
}

// takeCluster uses the cluster of kubectl. The operator gets a kubeconfig with only this cluster.
func (g *stage) takeCluster(context.Context) error {
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
		return fmt.Errorf("%w: no context %q in %s: set KUBECONFIG and CONTEXT so that 'kubectl cluster-info' shows your cluster, "+
			"or remove CLUSTER=%s", errUsage, config.CurrentContext, files, kubeconfig)
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
		g.access = g.pinned() // the user's files have another current context
	}
	server := config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server
	g.screen.Say(fmt.Sprintf("The example uses the cluster of kubectl: %s, context %q in %s.\n"+
		"The created objects stay when this command ends: see \"Clean up\" in examples/%s/README.md.", server, config.CurrentContext, files, g.name))
	return nil
}
