// Command jobset runs the controllers of JobSet against a test cluster. Without --webhook-port it has no webhooks: a
// test writes what they would have filled in. JobSet's own manager would serve on every address of the machine.
package main

import (
	"flag"
	"log"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
	"sigs.k8s.io/jobset/pkg/webhooks"
)

func main() {
	port := flag.Int("webhook-port", 0, "")
	certificates := flag.String("webhook-cert-dir", "", "")
	flag.Parse() // with controller-runtime's own: --kubeconfig
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(jobset.AddToScheme(scheme))

	config := ctrl.GetConfigOrDie()
	config.QPS, config.Burst = 500, 500
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: *port, CertDir: *certificates,
		}),
	})
	must(err)
	ctx := ctrl.SetupSignalHandler()
	must(controllers.SetupJobSetIndexes(ctx, manager.GetFieldIndexer()))
	reconciler := controllers.NewJobSetReconciler(manager.GetClient(), manager.GetScheme(),
		manager.GetEventRecorder("jobset"))
	must(reconciler.SetupWithManager(manager))
	if *port != 0 {
		must(controllers.SetupPodIndexes(ctx, manager.GetFieldIndexer()))
		pods := controllers.NewPodReconciler(manager.GetClient(), manager.GetScheme(),
			manager.GetEventRecorder("pod"))
		must(pods.SetupWithManager(manager))
		must(webhooks.Setup(manager))
	}
	must(manager.Start(ctx))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
