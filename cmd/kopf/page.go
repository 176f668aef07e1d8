package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
)

func newPage() *cobra.Command {
	var from operatorEndpoint
	var address string
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Open the status page of an operator in a browser",
		Long: `Browsers send no bearer token. This command serves the status page of an operator on this machine and adds the token to each request.
It ends with Ctrl-C.

Everyone who can connect to the address can read the page. Use an address of this machine only.`,
		Example: `  kubectl -n shop-system port-forward deployment/shop-controller-manager 8443 &
  kopf page --operator https://localhost:8443 --insecure-skip-tls-verify \
    --token "$(kubectl -n shop-system create token shop-status-reader)"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from.url == "" {
				return errors.New(`--operator is missing: set the URL of the metrics server of the operator, such as "https://localhost:8443"`)
			}
			if err := from.check(); err != nil {
				return err
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
			if err != nil {
				return fmt.Errorf("--address: %w", err)
			}
			cmd.Printf("http://%s%s\n", listener.Addr(), statuspage.Path)
			return from.serve(cmd.Context(), listener)
		},
	}
	from.bind(cmd.Flags())
	cmd.Flags().StringVar(&address, "address", "localhost:8090", "address that serves the page")
	return cmd
}

// serve forwards the requests for the page, with the token, until the context ends.
func (o *operatorEndpoint) serve(ctx context.Context, listener net.Listener) error {
	target, err := url.Parse(o.url)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: o.insecure} //nolint:gosec // only with the flag
	defer transport.CloseIdleConnections()
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.RawPath = "" // the encoding of the path must not hide another path
		r.SetURL(target)
		if r.Out.Header.Del("Authorization"); o.token != "" {
			r.Out.Header.Set("Authorization", "Bearer "+o.token)
		}
	}}
	own := listener.Addr().String()
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host != own && !strings.HasPrefix(r.Host, "localhost:"): // a web site whose name resolves to this machine must not read the page
			http.Error(w, "Use the address that the command has printed", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "The page only reads", http.StatusMethodNotAllowed)
		case !statuspage.Serves(r.URL.Path): // the token must not be sent to other paths of the server, such as its metrics
			http.Redirect(w, r, statuspage.Path, http.StatusFound)
		default:
			proxy.ServeHTTP(w, r)
		}
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
