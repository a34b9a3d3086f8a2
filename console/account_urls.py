"""Addresses of provider accounts. Opening one asks nobody and changes nothing."""

from django.urls import path

from console.views import provider_accounts as views

urlpatterns = [
    path("new/", views.kinds, name="reconcilers-kinds"),
    path("new/<slug:kind>/", views.new, name="reconcilers-new"),
    path("<acc:handle>/", views.account, name="reconcilers-account"),
    path("<acc:handle>/edit/", views.edit, name="reconcilers-edit"),
    path("<acc:handle>/test/", views.test, name="reconcilers-test"),
]
