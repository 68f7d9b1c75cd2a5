// Command leaderworkerset runs the controllers and webhooks of LeaderWorkerSet against a test cluster. Its own manager
// would serve on every address of the machine, and keep certificates of its own.
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
	leaderworkerset "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/lws/pkg/controllers"
	"sigs.k8s.io/lws/pkg/webhooks"
)

func main() {
	port := flag.Int("webhook-port", 0, "")
	certificates := flag.String("webhook-cert-dir", "", "")
	flag.Parse() // with controller-runtime's own: --kubeconfig
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(leaderworkerset.AddToScheme(scheme))

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
	must(controllers.SetupIndexes(manager.GetFieldIndexer()))
	sets := controllers.NewLeaderWorkerSetReconciler(manager.GetClient(), manager.GetScheme(),
		manager.GetEventRecorderFor("leaderworkerset"))
	must(sets.SetupWithManager(manager))
	pods := controllers.NewPodReconciler(manager.GetClient(), manager.GetScheme(),
		manager.GetEventRecorderFor("leaderworkerset"), nil)
	must(pods.SetupWithManager(manager))
	must(webhooks.SetupLeaderWorkerSetWebhook(manager))
	must(webhooks.NewPodWebhook(nil).Setup(manager))
	must(manager.Start(ctrl.SetupSignalHandler()))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
